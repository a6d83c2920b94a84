import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A way to a broker that can be cut, as when a cable is pulled, and used again. */
final class Cable implements Closeable {
    private final ServerSocket server;
    private final int target;
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();

    Cable(int target) throws IOException {
        this.target = target;
        this.server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    int port() {
        return server.getLocalPort();
    }

    void cut() throws IOException {
        for (Socket socket : sockets) {
            sockets.remove(socket);
            socket.close();
        }
    }

    @Override
    public void close() throws IOException {
        server.close();
        cut();
    }

    private void accept() {
        try {
            while (true) {
                Socket near = server.accept();
                Socket far = new Socket(InetAddress.getLoopbackAddress(), target);
                sockets.add(near);
                sockets.add(far);
                start(() -> pass(near, far));
                start(() -> pass(far, near));
            }
        } catch (IOException closed) {
            // The story is over.
        }
    }

    private static void pass(Socket from, Socket to) {
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            in.transferTo(out);
        } catch (IOException cut) {
            // So it was meant.
        }
    }

    private static void start(Runnable run) {
        Thread thread = new Thread(run);
        thread.setDaemon(true);
        thread.start();
    }
}
