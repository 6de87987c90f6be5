import java.nio.file.Path;
import org.neo4j.harness.Neo4j;
import org.neo4j.harness.Neo4jBuilders;

/** A Neo4j Community on loopback, in a folder of its own: prints its Bolt address when it is up, ends with stdin. */
class Neo4jServer {
    public static void main(String[] arguments) throws Exception {
        Neo4j server = Neo4jBuilders.newInProcessBuilder(Path.of(arguments[0])).withDisabledServer().build();
        System.out.println("{\"bolt\": \"" + server.boltURI() + "\"}");
        System.out.flush();
        while (System.in.read() >= 0) { }
        server.close();
        System.exit(0);
    }
}
