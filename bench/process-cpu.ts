import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** The processes that a process started, by command name. */
export function childProcesses(parent: number, command: string): number[] {
  const rows = execFileSync("ps", ["-A", "-o", "pid=,ppid=,comm="], { encoding: "utf8" });
  return rows.split("\n").flatMap((row) => {
    const [pid, ppid, name = ""] = row.trim().split(/\s+/);
    return Number(ppid) === parent && name.endsWith(command) ? [Number(pid)] : [];
  });
}

/**
 * CPU time that a process has used so far, in microseconds, all of its threads together. From the
 * scheduler's own count, because a clock inside workerd stands still.
 */
export function cpuMicroseconds(pid: number): number {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8"))
    .reduce((sum, schedstat) => sum + Number(schedstat.split(" ")[0]) / 1000, 0);
}
