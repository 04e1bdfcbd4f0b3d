import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** The child processes with this command name. */
export function childProcesses(parent: number, command: string): number[] {
  const rows = execFileSync("ps", ["-A", "-o", "pid=,ppid=,comm="], { encoding: "utf8" });
  return rows.split("\n").flatMap((row) => {
    const [pid, ppid, name = ""] = row.trim().split(/\s+/);
    return Number(ppid) === parent && name.endsWith(command) ? [Number(pid)] : [];
  });
}

/**
 * CPU time of all threads of a process so far, in microseconds, as the scheduler counts it: a clock inside
 * workerd stands still between I/O.
 */
export function cpuMicroseconds(pid: number): number {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8"))
    .reduce((sum, schedstat) => sum + Number(schedstat.split(" ")[0]) / 1000, 0);
}
