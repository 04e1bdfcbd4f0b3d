import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createGuard } from "../../../src/node/limits/guard.ts";
import { usualLimits } from "../../../src/node/limits/limits.ts";
import { patientLimits } from "../../testkit/ca/patient-limits.ts";
import { endOf, openSocket, openTls, type Started, start } from "./limited-ca.ts";

let started: Started;

beforeAll(async () => {
  started = await start({}, afterAll);
});

/** Has the server take on another table `LIMITS` while it runs. */
async function change(limits: object, { served } = started): Promise<void> {
  const LIMITS = { ...patientLimits, ...limits };
  expect(await served.reconfigure({ LIMITS })).toEqual([]);
}

test("a raised bound of handshakes admits those that wait, and cuts nobody", async () => {
  await change({ handshakes: 1, handshakes_per_address: 1 });
  const silent = openSocket(started.served.port);
  await once(silent, "connect");
  const waiting = openTls(started, "h2");
  await change({ handshakes: 2, handshakes_per_address: 2 });
  const next = openTls(started, "h2");
  await Promise.all([once(waiting, "secureConnect"), once(next, "secureConnect")]);
  expect(silent.destroyed).toBe(false);
});

test("a lowered bound of connections closes none by itself, and a new one replaces one", async () => {
  await change({});
  const open = [openTls(started, "h2"), openTls(started, "h2")];
  await Promise.all(open.map((each) => once(each, "secureConnect")));
  await change({ connections_per_address: 1 });
  const next = openTls(started, "h2");
  await Promise.race(open.map(endOf));
  expect([...open, next].filter(({ destroyed }) => !destroyed)).toHaveLength(2);
});

test("stalled callers are ended even if the table changes again and again", async () => {
  const limits = { ...usualLimits, progress_timeout: 200 };
  const guard = createGuard(limits);
  const { promise: aborted, resolve: abort } = Promise.withResolvers<void>();
  const exchange = { isReceiving: () => true, unsentOctets: () => 0, isGone: () => false };
  guard.exchanges.begin({ ...exchange, address: "192.0.2.1", abort, refuse: () => {} });
  const changes = setInterval(() => guard.follow(limits), 20);
  try {
    await aborted;
  } finally {
    clearInterval(changes);
    guard.end();
  }
});

test("a limit that a table no longer has counts no more", () => {
  const guard = createGuard({ ...usualLimits, memory: 1 });
  guard.follow(usualLimits);
  guard.end();
  expect(guard.limits).toEqual(usualLimits);
});
