import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * All stories, told to the broker at the given port by one JVM.
 *
 * <p>For each its name after "== ", then what the client saw, line by line, in words that do not depend on
 * time or chance. A story that fails says why after "failed: ".
 */
public class Stories {
    static final int TIMEOUT_S = 60;

    interface Story {
        void tell(int port, List<String> lines) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        Map<String, Story> stories = new LinkedHashMap<>();
        ClientStories.addTo(stories);
        SpringStories.addTo(stories);
        for (Map.Entry<String, Story> one : stories.entrySet()) {
            List<String> lines = new ArrayList<>();
            try {
                one.getValue().tell(port, lines);
            } catch (Throwable error) {
                error.printStackTrace();
                lines.add("failed: " + error);
            }
            System.out.println("== " + one.getKey());
            lines.forEach(System.out::println);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Lines that come from other threads. */
    static final class Heard {
        private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

        void say(String line) {
            lines.add(line);
        }

        String next() throws InterruptedException {
            String line = lines.poll(TIMEOUT_S, TimeUnit.SECONDS);
            if (line == null) {
                throw new IllegalStateException("nothing came");
            }
            return line;
        }

        List<String> next(int count) throws InterruptedException {
            List<String> found = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                found.add(next());
            }
            return found;
        }

        int waiting() {
            return lines.size();
        }
    }
}
