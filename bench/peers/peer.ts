import { childProcesses, cpuMicroseconds } from "../measurement/process-cpu.ts";

/** A CA under measurement. */
export interface Peer {
  readonly name: string;
  readonly version: string;
  /** The API by which its own clients ask it. */
  readonly api: string;
  readonly rootKey: "EC-P256" | "RSA-2048";
  /** The work of a call that it leaves to others; empty for none. */
  readonly less: string;
  /** Issues so many certificates. */
  readonly load: (times: number) => Promise<void>;
  /** CPU that its processes have used so far, in microseconds. */
  readonly cpu: () => number;
  readonly end: () => Promise<void>;
}

/** A CA that could not be started, and why. */
export interface MissingPeer {
  readonly name: string;
  readonly why: string;
}

/** CPU of a process and of its children, in microseconds. */
export function cpuOfAll(pid: number): number {
  const all = [pid, ...childProcesses(pid, "")];
  return all.reduce((sum, each) => sum + cpuMicroseconds(each), 0);
}

const longestStartSeconds = 120;

/** Repeats a first call until it succeeds. @throws Error of the last attempt. */
export async function untilItIssues(call: () => Promise<void>): Promise<void> {
  const end = performance.now() + 1000 * longestStartSeconds;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (performance.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}
