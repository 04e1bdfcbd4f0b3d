import { X509Certificate } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { RenewingListener } from "../../../src/node/http/renewing-listener.ts";
import type { ServingCertificate } from "../../../src/node/tls.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";

const { ca: chainPem, key: keyPem } = await createTlsIdentity();
const certificate: ServingCertificate = { chainPem, keyPem };
const address = { address: "127.0.0.1", family: "IPv4", port: 1 };

/** A listener whose certificate a test takes away and brings back, one refresh after the other. */
async function openedListener() {
  let fault: Error | undefined;
  let now = new Date();
  let begin = (): void => {};
  let clientRoots = "roots";
  let isAccepted = true;
  let refreshed = Promise.withResolvers<void>();
  const log = createEventRecorder();
  const pauses: number[] = [];
  const listener = new RenewingListener({
    certificateAt: async () => {
      if (fault) throw fault;
      return certificate;
    },
    clientRootsAt: async () => clientRoots,
    isAccepted: () => isAccepted,
    listen: async () => ({ address, replace: () => {}, close: async () => {} }),
    log,
    clock: () => now,
    pause: (milliseconds, signal) => {
      pauses.push(milliseconds);
      const { promise, resolve } = Promise.withResolvers<void>();
      begin = resolve;
      signal?.addEventListener("abort", () => resolve());
      refreshed.resolve();
      return promise;
    },
  });
  onTestFinished(() => listener.close(0));
  await refreshed.promise;
  return {
    state: () => listener.state(),
    pass: (to: Date) => {
      now = to;
    },
    changeRoots: (accepted: boolean) => {
      clientRoots += " and others";
      isAccepted = accepted;
    },
    log,
    pauses,
    refresh: async (next?: Error) => {
      fault = next;
      refreshed = Promise.withResolvers();
      begin();
      await refreshed.promise;
    },
  };
}

const lost = new Error("the store cannot be read");

test("a fault is reported for as long as it lasts", async () => {
  const { state, refresh } = await openedListener();
  expect(state()).toEqual({ isOpen: true, reasons: [] });
  await refresh(lost);
  expect(state().reasons).toEqual(["the serving certificate: the store cannot be read"]);
  await refresh();
  expect(state()).toEqual({ isOpen: true, reasons: [] });
});

test("a port that is taken is no certificate that is missing", async () => {
  const { log, refresh } = await openedListener();
  await refresh(Object.assign(new Error("listen EADDRINUSE"), { code: "EADDRINUSE" }));
  expect(log.operations.map(({ event }) => event)).not.toContain("serving-certificate-missing");
  await refresh(lost);
  expect(log.operations.map(({ event }) => event)).toContain("serving-certificate-missing");
});

test.each<
  [string, (certificate: X509Certificate) => Date, (certificate: X509Certificate) => string]
>([
  [
    "has ended",
    ({ validToDate }) => validToDate,
    ({ validToDate }) => `it ended at ${validToDate.toISOString()}`,
  ],
  [
    "is not valid yet, because the clock was set back,",
    ({ validFromDate }) => new Date(validFromDate.getTime() - 1000),
    ({ validFromDate }) => `it is not valid before ${validFromDate.toISOString()}`,
  ],
])("a certificate that %s leaves the port open to nobody", async (_, at, reason) => {
  const { state, pass, refresh } = await openedListener();
  const shown = new X509Certificate(chainPem);
  pass(at(shown));
  expect(state().isOpen).toBe(false);
  await refresh();
  expect(state().reasons).toEqual([`the serving certificate: ${reason(shown)}`]);
});

test("so does one whose root was withdrawn, until there is another", async () => {
  const { state, changeRoots, refresh } = await openedListener();
  changeRoots(false);
  await refresh();
  expect(state()).toEqual({
    isOpen: false,
    reasons: ["the serving certificate: its root was withdrawn"],
  });
  changeRoots(true);
  await refresh();
  expect(state()).toEqual({ isOpen: true, reasons: [] });
});

test("a fault is logged once, and again if it returns after a success", async () => {
  const { refresh, log } = await openedListener();
  for (const fault of [lost, lost, undefined, lost]) await refresh(fault);
  const missing = log.operations.filter(({ event }) => event === "serving-certificate-missing");
  expect(missing).toHaveLength(2);
});

test("a root that leaves at once is seen within a quarter of a second", async () => {
  const { refresh, pauses } = await openedListener();
  await refresh();
  expect(pauses).toEqual([250, 250]);
});
