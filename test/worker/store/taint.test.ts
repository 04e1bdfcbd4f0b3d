import { createScheduledController } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect, test } from "vitest";
import { Kek, type KekRing } from "../../../src/custody/kek.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import { wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { createKvStore } from "../../../src/worker/kv-store.ts";
import { origin } from "../../contract/service-under-test.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { recordConsoleLines } from "../runtime/console-lines.ts";
import worker from "../runtime/patient-worker.ts";

const get = (path: string, headers: HeadersInit = {}) =>
  exports.default.fetch(new Request(`${origin}${path}`, { headers }));

interface Readiness {
  readonly ready: boolean;
  readonly authority?: string;
  readonly reasons: readonly string[];
}

const readiness = async (): Promise<Readiness> => (await get("/readyz")).json();

const runCron = () =>
  worker.scheduled(createScheduledController({ cron: "0 * * * *" }), { ...env });

/** The KEK of the configuration, as an operator's command imports it. */
async function kekRing(): Promise<KekRing> {
  const [id = "", octets = ""] = env.KEK.split(":");
  return [await Kek.import(id, Base64.parse(octets) ?? new Uint8Array())];
}

recordConsoleLines();

test("a taint in KV ends the signing in a running isolate, and the cron mints the next authority", async () => {
  await runCron();
  const becomes = (expected: Partial<Readiness>) =>
    eventually(async () => expect(await readiness()).toMatchObject(expected));
  await becomes({ ready: true });
  const { authority: id = "" } = await readiness();
  const etag = (await get("/bundle.json")).headers.get("etag") ?? "";
  const waiting = get("/bundle.json", { "if-none-match": etag, prefer: "wait=50" });
  const now = wholeSeconds(new Date());
  const taint = { id, taintedAt: now, retiresAt: now };
  await createKvStore(env.AUTHORITIES).put(
    await Statement.seal("taint", taint, { trustDomain: clusterLocal, keks: await kekRing() }),
  );
  await becomes({ ready: false });
  expect((await get("/bundle.pem")).status).toBe(503);
  await runCron();
  await becomes({ ready: true, reasons: [] });
  expect((await readiness()).authority).not.toBe(id);
  const { status, headers } = await waiting;
  expect([status, headers.get("preference-applied")]).toEqual([200, "wait=50"]);
  expect(headers.get("etag")).not.toBe(etag);
  const { keys } = await env.AUTHORITIES.list();
  expect(keys.map(({ name }) => name).filter((name) => name.includes(id))).toEqual([
    `authorities/${id}`,
    expect.stringMatching(`^taints/${id}-`),
  ]);
});
