import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, reportOutcomes } from "../outcome-table.ts";
import { familyScenes } from "./family-scenes.ts";
import { makeNetwork, podAt, servers } from "./network.ts";
import { proxyScenes } from "./proxy-scenes.ts";

/** The programs that the suite has found before it entered this network. */
export interface Programs {
  readonly tinyproxy: string;
  readonly envoy: string;
  readonly pilotAgent: string;
  readonly template: string;
  readonly plane: string;
}

export interface Stage {
  readonly folder: string;
  readonly programs: Programs;
}

// The exit ends the started processes, which a signal alone would leave running.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const [programs = "{}", only = ""] = process.argv.slice(2);
const folder = await lastingFolder();
await makeNetwork(folder, {
  "ca.example": [servers.v4],
  "keys.example": [servers.v4],
  "gateway.example": [podAt(0).v4],
  // c-ares merges the lines of an address, and then misses a name that has another: these have their own.
  "dual.example": [servers.v6, "10.88.0.2"],
  // Of a network that the pods have a way to, and nobody answers in.
  "swallowed.example": ["fd99::1", "10.88.0.3"],
});
const stage = { folder, programs: JSON.parse(programs) as Programs };
const parts = { proxies: proxyScenes, families: familyScenes };
const outcomes: Outcome[] = [];
for (const [name, play] of Object.entries(parts)) {
  if (!name.includes(only)) continue;
  outcomes.push(
    ...(await play(stage).catch((error: unknown): Outcome[] => [
      {
        client: name,
        server: "this machine",
        what: "all",
        result: "FAILED",
        detail: String(error),
      },
    ])),
  );
}
reportOutcomes(outcomes);
process.exit();
