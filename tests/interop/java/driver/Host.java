import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * One JVM for many scenarios and tools, because a JVM that starts costs more than most of them.
 *
 * <p>A line of input is a call: its words, each in base64. The first is a tool's class or Class.method of a
 * scenario, the rest are arguments. A line of output is what became of it: exit code, stdout and stderr, the
 * latter two in base64.
 */
public class Host {
    static final class Exited extends RuntimeException {
        final int code;

        Exited(int code, String message) {
            super(message);
            this.code = code;
        }
    }

    // Some tools catch what ends them here and would end again with another code: the first one counts.
    private static Integer exitCode;

    private static void exit(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
        }
        throw new Exited(code, message);
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        PrintStream log = System.err;
        Exit.setExitProcedure(Host::exit);
        Exit.setHaltProcedure(Host::exit);
        Exit.setShutdownHookAdder((name, runnable) -> { });
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            String[] words = Arrays.stream(line.split(" ")).map(Host::decoded).toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            exitCode = null;
            int code = call(words[0], Arrays.copyOfRange(words, 1, words.length));
            if (exitCode != null) {
                code = exitCode;
            }
            System.out.flush();
            System.err.flush();
            System.setOut(answers);
            System.setErr(log);
            Base64.Encoder encoder = Base64.getEncoder();
            answers.println(code + " ." + encoder.encodeToString(out.toByteArray())
                    + " ." + encoder.encodeToString(err.toByteArray()));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int call(String name, String[] args) {
        try {
            int dot = name.lastIndexOf('.');
            boolean isScenario = dot == name.indexOf('.') && dot >= 0;
            Class<?> type = Class.forName(isScenario ? name.substring(0, dot) : name);
            String method = isScenario ? name.substring(dot + 1) : "main";
            type.getMethod(method, String[].class).invoke(null, (Object) args);
            return 0;
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof Exited exited) {
                if (exited.getMessage() != null) {
                    System.err.println(exited.getMessage());
                }
                return exited.code;
            }
            wrapped.getCause().printStackTrace(System.err);
            return 1;
        } catch (Exited exited) {
            return exited.code;
        } catch (ReflectiveOperationException error) {
            error.printStackTrace(System.err);
            return 2;
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word.substring(1)), StandardCharsets.UTF_8);
    }
}
