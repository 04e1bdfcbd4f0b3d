import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SearchFields } from "../../src/cli/verbs/log/entry.ts";
import { FollowerIndex } from "../../src/cli/verbs/log/follower-index.ts";
import type { Row } from "../measurement/report.ts";

const entries = 1_000_000;
const octets = new Uint8Array(620);
const begin = Date.parse("2026-11-01T00:00:00Z");

const instantOf = (idx: number): string => new Date(begin + idx * 1000).toISOString();
const hashOf = (idx: number): string => createHash("sha1").update(`${idx}`).digest("hex");

/** A mesh of three clusters, a thousand nodes and five thousand accounts. */
const certificateOf = (idx: number) => ({
  at: instantOf(idx),
  spiffeId: `spiffe://cluster.local/ns/team-${idx % 50}/sa/account-${idx % 5_000}`,
  serial: hashOf(idx).slice(0, 34),
  notAfter: instantOf(idx + 86_400),
  cluster: `prod-${idx % 3}`,
  node: `node-${idx % 1_000}`,
  tokenId: hashOf(idx >> 2),
  isAuthority: false,
});

const middle = certificateOf(entries / 2);

/** Searches that find much, one entry, or nothing; some by two fields. */
const searches: readonly SearchFields[] = [
  { spiffeId: middle.spiffeId },
  { serial: middle.serial },
  { cluster: middle.cluster },
  { cluster: "prod-9" },
  { cluster: middle.cluster, since: instantOf(entries) },
  { node: middle.node },
  { tokenId: middle.tokenId },
  { since: instantOf(entries - 60) },
  { until: instantOf(60) },
  { cluster: middle.cluster, spiffeId: middle.spiffeId, until: instantOf(600_000) },
];

/** The slowest search of a follower's copy on disk with a million entries. */
export async function searchRows(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "rampart-bench-"));
  try {
    using index = new FollowerIndex(folder);
    await index.transaction(async () => {
      for (let idx = 0; idx < entries; idx++) index.addEntry(idx, octets, certificateOf(idx));
    });
    const times = searches.map((fields) => {
      const before = performance.now();
      index.search(fields, 1_000);
      return performance.now() - before;
    });
    const name = "log search in 1,000,000 entries, slowest of ten";
    return [{ name, value: Math.max(...times), unit: "ms", budget: 2_000 }];
  } finally {
    rmSync(folder, { recursive: true });
  }
}
