import { EventLog } from "../../../src/ca/issuance/event-log.ts";
import { Kek } from "../../../src/custody/kek.ts";
import { NodeLog } from "../../../src/node/log/node-log.ts";
import { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { logConfiguration } from "../../testkit/tlog/log-configuration.ts";

/**
 * A program that appends to a log until it is killed, or until the log takes nothing more. It prints one
 * line for each answered entry: its index, and its number, which is also its content.
 */
const [, , storeDirectory = "", kek = "", origin = "", lengthText = "", from = ""] = process.argv;

const clock = (): Date => new Date("2026-11-21T12:00:00Z");
const imported = await Kek.import("k1", new Uint8Array(Buffer.from(kek, "hex")));
const { issuanceLog } = await NodeLog.open({
  storeDirectory,
  configuration: logConfiguration({
    origin,
    inceptionDate: "2026-11-21",
    intervalSeconds: 0.05,
  }),
  shard: 0,
  trustDomain: TrustDomain.parse("cluster.local") as TrustDomain,
  keks: { hold: () => undefined, ring: () => [imported] },
  log: EventLog.create(clock, () => {}),
  clock,
});

const { signal } = new AbortController();
let next = Number(from);
async function appendForever(): Promise<void> {
  for (;;) {
    const number = next++;
    const entry = new TextEncoder().encode(`${number} `.padEnd(Number(lengthText), "."));
    const { index } = await issuanceLog.append(entry as Uint8Array<ArrayBuffer>, signal);
    process.stdout.write(`${index} ${number}\n`);
  }
}

try {
  await Promise.all(Array.from({ length: 8 }, appendForever));
} catch (error) {
  process.stdout.write(`refused ${error instanceof Error ? error.message : ""}\n`);
  process.exit(3);
}
