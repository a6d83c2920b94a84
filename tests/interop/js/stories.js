// All stories, told by amqplib to the broker at the given port. For each its name after "== ", then what the
// client saw, line by line, in words that do not depend on time or chance; "failed: " when it failed.
"use strict";

const amqp = require("amqplib");

const TIMEOUT_MS = 60000;
const port = Number(process.argv[2]);

const connect = () => amqp.connect({ hostname: "127.0.0.1", port, username: "guest", password: "guest" });

// What comes by callbacks, to be waited for.
class Heard {
  constructor() {
    this.found = [];
    this.waiting = [];
  }

  say(what) {
    if (this.waiting.length) this.waiting.shift()(what);
    else this.found.push(what);
  }

  next() {
    if (this.found.length) return Promise.resolve(this.found.shift());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("nothing came")), TIMEOUT_MS);
      this.waiting.push((what) => {
        clearTimeout(timer);
        resolve(what);
      });
    });
  }

  async take(count) {
    const found = [];
    for (let i = 0; i < count; i++) found.push(await this.next());
    return found;
  }
}

const shown = (message) =>
  `${message.fields.deliveryTag}:${message.content}${message.fields.redelivered ? "*" : ""}`;

const stories = {
  async js_confirms(connection, say) {
    const channel = await connection.createConfirmChannel();
    const heard = new Heard();
    channel.on("return", (message) =>
      heard.say(
        `returned ${message.fields.replyCode} ${message.fields.replyText} '${message.fields.exchange}' ` +
          `'${message.fields.routingKey}' ${message.content} ${message.properties.messageId}`,
      ),
    );
    await channel.assertQueue("js.confirms", { durable: true });
    for (let i = 0; i < 200; i++) channel.sendToQueue("js.confirms", Buffer.from(`${i}`), { persistent: true });
    await channel.waitForConfirms();
    say(`200 confirmed, ${(await channel.checkQueue("js.confirms")).messageCount} there`);
    channel.publish("amq.topic", "no.body", Buffer.from("lost"), { mandatory: true, messageId: "m-1" });
    say(await heard.next());
    await channel.waitForConfirms();
    await channel.assertQueue("js.small", { exclusive: true, maxLength: 1, arguments: { "x-overflow": "reject-publish" } });
    for (const body of ["fits", "does not"]) {
      const error = await new Promise((resolve) => channel.sendToQueue("js.small", Buffer.from(body), {}, resolve));
      say(`${body}: ${error ? error.message : "taken"}`);
    }
    say(`purged ${(await channel.purgeQueue("js.confirms")).messageCount}`);
    say(`deleted ${(await channel.deleteQueue("js.confirms", { ifEmpty: true })).messageCount}`);
  },

  // Much is on its way when the connection is closed: the callback comes all the same, and no error.
  async js_closing(_connection, say) {
    for (let round = 0; round < 5; round++) {
      const connection = await connect();
      const heard = new Heard();
      connection.on("error", (error) => heard.say(`error ${error.message}`));
      connection.on("close", (error) => heard.say(`close ${error || "without an error"}`));
      const channels = [];
      for (let i = 0; i < 4; i++) channels.push(await connection.createChannel());
      const body = Buffer.alloc(100000, "x");
      for (let i = 0; i < 100; i++) for (const channel of channels) channel.publish("amq.fanout", "", body);
      await connection.close();
      say(await heard.next());
    }
  },

  async js_consumer(connection, say) {
    const channel = await connection.createChannel();
    const heard = new Heard();
    await channel.assertQueue("js.work", { durable: true });
    for (let i = 0; i < 12; i++) channel.sendToQueue("js.work", Buffer.from(`${i}`), { persistent: true });
    await channel.prefetch(4);
    const { consumerTag } = await channel.consume("js.work", (message) => heard.say(message), { consumerTag: "mine" });
    const first = await heard.take(4);
    say(`${consumerTag}: ${first.map(shown)}`);
    channel.ack(first[1], true);
    const second = await heard.take(2);
    say(`after ack up to the second ${second.map(shown)}`);
    channel.nack(first[3], true, true);
    say(`after nack up to the fourth ${(await heard.take(2)).map(shown)}`);
    channel.reject(second[0], false);
    say(`after reject ${(await heard.take(1)).map(shown)}`);
    await channel.cancel(consumerTag);
    await channel.recover();
    const last = await channel.get("js.work", { noAck: true });
    say(`get ${last.content} redelivered=${last.fields.redelivered} left=${last.fields.messageCount}`);
    await channel.consume("js.work", (message) => {
      if (message === null) heard.say("cancelled by the broker");
      else channel.ack(message);
    });
    const other = await connection.createChannel();
    await other.deleteQueue("js.work");
    say(await heard.next());
    await other.assertQueue("js.none", { exclusive: true });
    say(`get of nothing ${await other.get("js.none")}`);
  },

  async js_fields(connection, say) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const headers = {
      text: "käse",
      empty: "",
      small: 5,
      negative: -5,
      byte: { "!": "byte", value: -100 },
      short: { "!": "short", value: 30000 },
      big: 2 ** 40,
      far: -(2 ** 45),
      half: 0.5,
      yes: true,
      no: false,
      nothing: null,
      when: { "!": "timestamp", value: 1700000000 },
      list: [1, "two", [3, { four: 4 }], null, true],
      table: { deep: { deeper: { deepest: "here" } } },
      bytes: Buffer.from([0, 1, 255]),
      float: { "!": "float", value: 1.5 },
      decimal: { "!": "decimal", value: { digits: 12345, places: 2 } },
    };
    const options = {
      headers,
      contentType: "text/plain",
      contentEncoding: "utf-8",
      persistent: true,
      priority: 7,
      correlationId: "c",
      replyTo: "somewhere",
      expiration: "60000",
      messageId: "id",
      timestamp: 1700000001,
      type: "kind",
      userId: "guest",
      appId: "app",
    };
    channel.sendToQueue(queue, Buffer.from("body"), options);
    const message = await channel.get(queue, { noAck: true });
    for (const [name, value] of Object.entries(message.properties.headers)) say(`${name} ${JSON.stringify(value)}`);
    delete message.properties.headers;
    say(JSON.stringify(message.properties));
  },

  async js_errors(connection, say) {
    const heard = new Heard();
    await (await connection.createChannel()).assertQueue("js.mine", { exclusive: true, expires: 60000 });
    const acts = [
      (one) => one.checkQueue("js.nowhere"),
      (one) => one.assertQueue("js.mine", { exclusive: true }),
      (one) => one.assertExchange("amq.fanout", "topic"),
      (one) => one.bindQueue("js.mine", "js.nowhere", ""),
      (one) => one.publish("js.nowhere", "", Buffer.from("x")),
      (one) => one.ack({ fields: { deliveryTag: 4 } }),
    ];
    for (const act of acts) {
      const channel = await connection.createChannel();
      channel.on("error", (error) => heard.say(`${error.code} ${error.message}`));
      try {
        await act(channel);
      } catch (error) {
        // The channel tells the same.
      }
      say(await heard.next());
    }
    say(`still there: ${(await (await connection.createChannel()).checkQueue("js.mine")).queue}`);
    connection.on("error", (error) => heard.say(`${error.code} ${error.message}`));
    const last = await connection.createChannel();
    last.on("error", () => {});
    last.assertExchange("js.x", "no-such-type").catch(() => {});
    say(await heard.next());
  },

  async js_remote_calls(connection, say) {
    const serving = await connection.createChannel();
    await serving.assertQueue("js.rpc", { exclusive: true });
    await serving.consume(
      "js.rpc",
      (message) => {
        const { replyTo, correlationId } = message.properties;
        serving.sendToQueue(replyTo, Buffer.from(`${message.content}!`), { correlationId });
      },
      { noAck: true },
    );
    const asking = await connection.createChannel();
    const heard = new Heard();
    await asking.consume("amq.rabbitmq.reply-to", (message) => heard.say(message), { noAck: true });
    for (const question of ["one", "two"]) {
      asking.sendToQueue("js.rpc", Buffer.from(question), { replyTo: "amq.rabbitmq.reply-to", correlationId: question });
      const answer = await heard.next();
      say(`${answer.content} to ${answer.properties.correlationId} by '${answer.fields.exchange}'`);
    }
  },
};

const bounded = (promise) => {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error("it took too long")), TIMEOUT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

const main = async () => {
  for (const [name, story] of Object.entries(stories)) {
    console.log(`== ${name}`);
    try {
      const connection = await bounded(connect());
      connection.on("error", () => {});
      await bounded(story(connection, (line) => console.log(line)));
      await connection.close().catch(() => {});
    } catch (error) {
      console.error(error);
      console.log(`failed: ${error}`);
    }
  }
  process.exit(0);
};

main();
