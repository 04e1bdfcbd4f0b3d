import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createTokenKey } from "../../test/testkit/callers/tokens.ts";
import { createWorkloadKey } from "../../test/testkit/callers/workload-key.ts";
import { median } from "../measurement/median.ts";
import type { Row } from "../measurement/report.ts";
import { createSizedCa, mintTokens, type Size, type SizedCa } from "./ca.ts";

const warmUpTimes = 2000;
const rounds = 41;
const timesPerRound = 50;

/** The largest cost or memory over the smallest. */
const budget = 1.2;

const smallest: Size = { issuers: 1, authorities: 1, namespaces: 10, denials: 0 };

/** What grows, and how far: the bounds of the configuration, or what the largest mesh has. */
const growths: readonly { readonly name: string; readonly sizes: readonly Partial<Size>[] }[] = [
  { name: "1, 100 and 1,000 issuers", sizes: [{}, { issuers: 100 }, { issuers: 1000 }] },
  { name: "1 and 12 authorities", sizes: [{}, { authorities: 12 }] },
  { name: "10 and 10,000 namespaces", sizes: [{}, { namespaces: 10_000 }] },
  { name: "no and 100 denials", sizes: [{}, { denials: 100 }] },
];

/** CPU of a call and memory of a CA, for CAs that differ in one size. */
export async function flatRows(): Promise<Row[]> {
  const { csrPem } = await createWorkloadKey("spiffe://cluster.local/ns/foo/sa/httpbin");
  const material = { key: await createTokenKey("ES256", "bench"), csrPem };
  const rows: Row[] = [];
  for (const { name, sizes } of growths) {
    const cas: SizedCa[] = [];
    const heaps: number[] = [];
    const bare = heapMebibytes();
    for (const part of sizes) {
      const size = { ...smallest, ...part };
      const tokens = await mintTokens(size, material);
      const before = heapMebibytes();
      const ca = await createSizedCa(size, material, tokens);
      await repeat(ca.call, tokens.length);
      cas.push(ca);
      heaps.push(bare + heapMebibytes() - before);
    }
    const heap = Math.max(...heaps) / Math.min(...heaps);
    rows.push(
      { name: `CPU per call, ${name}`, value: spread(await costs(cas)), budget },
      { name: `heap of a process, ${name}`, value: heap, budget },
    );
  }
  return rows;
}

/** CPU of one call of each CA in microseconds, for each round. */
async function costs(cas: readonly SizedCa[]): Promise<number[][]> {
  for (const { call } of cas) await repeat(call, warmUpTimes);
  const all: number[][] = [];
  for (let round = 0; round < rounds; round++) {
    const costs: number[] = [];
    for (const { call } of cas) {
      const before = process.cpuUsage();
      await repeat(call, timesPerRound);
      const { user, system } = process.cpuUsage(before);
      costs.push((user + system) / timesPerRound);
    }
    all.push(costs);
  }
  return all;
}

/** The median cost of the dearest CA over that of the cheapest, each against the first of its round. */
function spread(all: readonly (readonly number[])[]): number {
  const [first = []] = all;
  const ratios = first.map((_, i) => median(all.map((round) => (round[i] ?? 0) / (round[0] ?? 1))));
  return Math.max(...ratios) / Math.min(...ratios);
}

async function repeat(call: () => Promise<unknown>, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await call();
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function heapMebibytes(): number {
  // What a collection finalizes, only the next one frees.
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 2 ** 20;
}
