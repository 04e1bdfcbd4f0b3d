import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { WorkerOutput } from "./worker-output.ts";

/** The Worker in a local workerd, with wrangler as the parent of its processes. */
export interface WorkerProcess {
  /** Resolves with how it ended, such as `exit code 1`, once none of its processes is left. */
  readonly ended: Promise<string>;
  /** The latest lines that `showLine` did not get; for a failure. */
  unshownOutput(): string;
  /** Ends all of its processes: SIGTERM first, SIGKILL after three seconds. May be called again. */
  end(): Promise<void>;
}

/** Without these, wrangler dials out at the start and prints what of it failed. */
const quiet = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_LOG_PATH: ".wrangler/logs",
  X_LOCAL_EXPLORER: "false",
  X_LOCAL_OBSERVABILITY: "false",
};

/** The options of a Worker's process. */
interface WorkerProcessOptions {
  readonly root: string;
  readonly port: number;
  /** The path of its configuration. */
  readonly configuration: string;
  /** The path of a file of variables, which override those of the same name in the configuration and in .dev.vars. */
  readonly variables: string;
  /** Gets each line of the Worker, and the lines of wrangler that matter. */
  readonly showLine: (line: string) => void;
}

/** Starts `wrangler dev` on the loopback interface, with its state in `.wrangler/state`. */
export function startWorkerProcess(options: WorkerProcessOptions): WorkerProcess {
  const output = new WorkerOutput(options.showLine);
  // The Worker has its own KEK from .dev.vars; wrangler has no use for another one.
  const { KEK: _, ...environment } = process.env;
  const child = spawn(process.execPath, wranglerArguments(options), {
    cwd: options.root,
    env: { ...environment, ...quiet },
    stdio: ["ignore", "pipe", "pipe"],
    // In a process group of its own, Ctrl-C does not reach it, and one signal reaches all of it.
    detached: true,
  });
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream).on("line", (line) => output.take(line));
  }
  const killGroup = () => killProcessGroup(child);
  process.once("exit", killGroup);
  const ended = howItEnds(child).finally(() => {
    process.off("exit", killGroup);
    killGroup();
  });
  const end = async () => {
    output.mute();
    child.kill("SIGTERM");
    const timer = setTimeout(killGroup, 3_000);
    await ended.finally(() => clearTimeout(timer));
  };
  return { ended, end, unshownOutput: () => output.unshown() };
}

function wranglerArguments({
  root,
  configuration,
  port,
  variables,
}: WorkerProcessOptions): string[] {
  return [
    "--no-warnings",
    fileURLToPath(import.meta.resolve("wrangler")),
    "dev",
    `--config=${configuration}`,
    // Of two files with one name, the later one counts.
    `--env-file=${join(root, ".dev.vars")}`,
    `--env-file=${variables}`,
    `--persist-to=${join(root, ".wrangler/state")}`,
    "--ip=127.0.0.1",
    `--port=${port}`,
    "--show-interactive-dev-session=false",
    "--log-level=log",
  ];
}

async function howItEnds(child: ChildProcess): Promise<string> {
  const [code, signal] = await once(child, "exit");
  return signal ? `signal ${signal}` : `exit code ${code}`;
}

/** A group that is gone is ESRCH on Linux; a group of zombies is EPERM on macOS. */
function killProcessGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code !== "ESRCH" && code !== "EPERM") throw error;
  }
}
