import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Mutant, plant } from "./mutants.ts";
import type { Outcome, TestRequest } from "./test-process.ts";

const root = join(import.meta.dirname, "../..");

/** A fault may turn a loop into one that never ends nor yields, where no limit of a test is seen. */
const timeoutSeconds = 180;

const program = "test/mutants/test-process.ts";

/** A copy of this checkout in which faults are planted, one at a time. */
export class Checkout {
  readonly #folder = mkdtempSync(join(tmpdir(), "rampart-mutants-"));
  readonly #processes = new Map<string, ChildProcess>();

  constructor() {
    // Some tests start programs as another user.
    chmodSync(this.#folder, 0o755);
    const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], {
      cwd: root,
      encoding: "utf8",
    });
    for (const file of listed.split("\0").filter((name) => name !== "")) {
      cpSync(join(root, file), join(this.#folder, file), { recursive: true });
    }
    symlinkSync(join(root, "node_modules"), join(this.#folder, "node_modules"));
    // A fault may keep a test waiting for what never comes.
    const limit = join(this.#folder, "test/testkit/time/hang-limit.ts");
    const usual = readFileSync(limit, "utf8");
    writeFileSync(limit, usual.replace("300_000", "60_000"));
  }

  /** Runs the mutant's tests with its fault in place, and takes the fault out again. */
  async outcomeWith(mutant: Mutant): Promise<Outcome> {
    const path = join(this.#folder, mutant.file);
    const whole = readFileSync(path, "utf8");
    writeFileSync(path, plant(mutant, whole));
    try {
      return await this.outcome(mutant, timeoutSeconds);
    } finally {
      writeFileSync(path, whole);
    }
  }

  /** Runs tests on the code as it is. */
  async outcome({ project, test }: TestRequest, seconds = 3600): Promise<Outcome> {
    const child = this.#processFor(project);
    child.send({ project, test } satisfies TestRequest);
    const limit = AbortSignal.timeout(seconds * 1000);
    try {
      const [outcome] = await once(child, "message", { signal: limit });
      // Vite keeps what it has transformed, with its fault.
      if (project === "workerd") this.#end(project);
      return outcome;
    } catch {
      this.#end(project);
      return { failed: "does not end" };
    }
  }

  #processFor(project: string): ChildProcess {
    const running = this.#processes.get(project);
    if (running) return running;
    const options = { cwd: this.#folder, detached: true, stdio: "ignore" } as const;
    const child = fork(join(this.#folder, program), [project], { ...options, execArgv: [] });
    this.#processes.set(project, child);
    return child;
  }

  #end(project: string): void {
    const { pid } = this.#processes.get(project) ?? {};
    this.#processes.delete(project);
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  }

  remove(): void {
    for (const project of this.#processes.keys()) this.#end(project);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
