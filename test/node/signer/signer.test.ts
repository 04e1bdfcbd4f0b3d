import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { pause } from "../../../src/foundation/pause.ts";
import { Leadership, runSigner } from "../../../src/node/signer/signer.ts";
import { SignerConfiguration } from "../../../src/node/signer/signer-configuration.ts";
import { createTokenKey, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

/** An API server with a lease, and requests of services that it lists once it may. */
async function startApi() {
  const state = { holder: "another", version: 0, mayList: false };
  const holders: string[] = [];
  const { origin } = await startLoopbackServer(async (request, response) => {
    const { method = "", url = "" } = request;
    const answer = (status: number, json: object = {}) =>
      void response.writeHead(status).end(JSON.stringify(json));
    if (!url.includes("/leases")) {
      const list = { kind: "List", metadata: { resourceVersion: "1" }, items: [] };
      return answer(state.mayList && !url.includes("watch") ? 200 : 403, list);
    }
    if (method !== "GET") {
      state.holder = JSON.parse(await text(request)).spec.holderIdentity;
      state.version++;
      holders.push(state.holder);
    }
    const metadata = { resourceVersion: String(state.version) };
    answer(200, { metadata, spec: { holderIdentity: state.holder, leaseDurationSeconds: 15 } });
  });
  return { origin, state, holders };
}

const configurationOf = (KUBERNETES_SERVER: string, token: string) =>
  SignerConfiguration.parse(
    {
      UPSTREAM: "http://127.0.0.1:9",
      MONITORING_LISTEN: "127.0.0.1:0",
      KUBERNETES_SERVER,
      KUBERNETES_TOKEN_FILE: token,
      TOKEN_FILE: token,
      SIGNERS: [{ name: "example.com/x", services: [{ account: "a/b", dns_names: ["x.a.svc"] }] }],
    },
    {},
  );

test("a signer leads once the lease is free, passes it on at a reload, and gives it up when it ends", async () => {
  const { origin, state, holders } = await startApi();
  const token = join(await temporaryFolder(), "token");
  await writeFile(token, "any");
  const configuration = configurationOf(origin, token);
  const signer = await runSigner(configuration, {
    log: createEventRecorder(),
    clock: () => new Date(),
    pause: (milliseconds, signal) => pause(Math.min(milliseconds, 20), signal),
  });
  const get = async (path: string) =>
    (await fetch(`http://127.0.0.1:${signer.monitoringAddress.port}${path}`)).text();
  const reasons = async (): Promise<string> => JSON.parse(await get("/readyz")).reasons.join();
  expect(await get("/metrics")).toContain("rampart_signer_leading 0");
  expect(await reasons()).not.toContain("listed");
  state.holder = "";
  await eventually(async () => expect(await get("/metrics")).toContain("rampart_signer_leading 1"));
  await eventually(async () => expect(await reasons()).toContain("have not been listed yet"));
  state.mayList = true;
  await eventually(async () => expect(await reasons()).not.toContain("listed"));
  const former = state.holder;
  await signer.reconfigure(configuration);
  await eventually(() => expect(holders.at(-1)).not.toMatch(new RegExp(`^$|${former}`)));
  const passed = holders.slice(holders.lastIndexOf(former) + 1);
  expect([passed[0], new Set(passed).size]).toEqual(["", 2]);
  await signer.close(0);
  expect(state.holder).toBe("");
});

test("a signer whose own token has expired says so before anybody requests a certificate", async () => {
  const token = join(await temporaryFolder(), "token");
  const key = await createTokenKey("ES256", "k1");
  const past = { exp: Math.floor(Date.now() / 1000) - 1 };
  const write = async (changes: Record<string, unknown> = {}) =>
    writeFile(
      token,
      await mintAccountToken(key, "https://a.test", "a:signer", new Date(), changes),
    );
  await write(past);
  const configuration = configurationOf("http://127.0.0.1:9", token);
  const context = { log: createEventRecorder(), clock: () => new Date() };
  const signer = await runSigner(configuration, context);
  onTestFinished(() => signer.close(0));
  const { port } = signer.monitoringAddress;
  const reasons = async (): Promise<readonly string[]> =>
    (await (await fetch(`http://127.0.0.1:${port}/readyz`)).json()).reasons;
  const unreachable = expect.stringMatching(/^the API server /);
  const expired = `the signer's own token: ${token} holds a token that has expired`;
  await eventually(async () => expect(await reasons()).toEqual([unreachable, expired]));
  await write();
  await eventually(async () => expect(await reasons()).toEqual([unreachable]));
});

type Answer = boolean | "unknown";
let leadership: Leadership | undefined;

afterEach(async () => {
  await leadership?.end();
  leadership = undefined;
});

/** @param stopped Until then its work goes on after it was told to end. */
function campaign(first: Answer, stopped: Promise<void> = Promise.resolve()) {
  const time = createVirtualTime(new Date("2026-11-22T12:00:00Z"));
  const log = createEventRecorder();
  const signals: AbortSignal[] = [];
  let answer = first;
  let released = 0;
  leadership = new Leadership({
    candidate: {
      acquire: async () => {
        if (answer === "unknown") throw new FetchError("did not answer");
        return answer;
      },
      release: async () => {
        released++;
        throw new FetchError("did not answer");
      },
    },
    work: (signal) => {
      signals.push(signal);
      const ended = new Promise<void>((resolve) =>
        signal.addEventListener("abort", () => resolve(stopped)),
      );
      return { ended };
    },
    log,
    clock: time.clock,
    pause: time.pause,
  });
  return {
    time,
    log,
    signals,
    leadership,
    become: (next: Answer) => {
      answer = next;
    },
    released: () => released,
  };
}

/** {@link campaign} of a process that leads. */
async function leading(stopped?: Promise<void>) {
  const led = campaign(true, stopped);
  await led.time.passUntil(() => expect(led.leadership.isLeading()).toBe(true));
  return led;
}

describe("a process", () => {
  test("that holds the lease works, once", async () => {
    const { time, signals } = await leading();
    time.pass(60);
    await time.passUntil(() => expect(signals).toHaveLength(1));
    expect(signals[0]?.aborted).toBe(false);
  });

  test("that does not hold the lease waits, and works as soon as it does", async () => {
    const { time, become, signals, leadership: own, log } = campaign(false);
    time.pass(10);
    expect(signals).toEqual([]);
    become(true);
    await time.passUntil(() => expect(own.isLeading()).toBe(true));
    expect(log.operations).toMatchObject([{ event: "leading" }]);
  });

  test("that cannot ask for the lease says so until it can", async () => {
    const { time, become, leadership: own } = campaign("unknown");
    await time.passUntil(() => expect(own.faults()).toEqual(["the API server did not answer"]));
    become(false);
    await time.passUntil(() => expect(own.faults()).toEqual([]));
  });

  test("that has lost the lease stops its work", async () => {
    const { time, become, signals, leadership: own } = await leading();
    become(false);
    await time.passUntil(() => expect(own.isLeading()).toBe(false));
    expect(signals[0]?.aborted).toBe(true);
    become(true);
    await time.passUntil(() => expect(signals).toHaveLength(2));
  });

  test("goes on for ten seconds without an answer of the API server, and no longer", async () => {
    const { time, become, signals, leadership: own } = await leading();
    const begun = time.clock().getTime();
    become("unknown");
    await time.passUntil(() => expect(own.isLeading()).toBe(false));
    const seconds = (time.clock().getTime() - begun) / 1000;
    expect(seconds).toBeGreaterThanOrEqual(8);
    expect(seconds).toBeLessThan(15);
    expect(signals[0]?.aborted).toBe(true);
  });

  test("stops by a clock that was set back, unless the API server answers", async () => {
    const { time, become, signals, leadership: own } = await leading();
    time.setBack(3600);
    time.pass(20);
    await time.passUntil(() => expect(own.isLeading()).toBe(true));
    become("unknown");
    time.setBack(3600);
    const begun = time.clock().getTime();
    await time.passUntil(() => expect(own.isLeading()).toBe(false));
    expect((time.clock().getTime() - begun) / 1000).toBeLessThan(15);
    expect(signals).toHaveLength(1);
  });

  test("that ends gives the lease up after its work has stopped", async () => {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
    const { time, signals, leadership: own, released } = await leading(stopped);
    const ended = own.end();
    await time.passUntil(() => expect(signals[0]?.aborted).toBe(true));
    expect(released()).toBe(0);
    stop();
    await ended;
    expect(released()).toBe(1);
  });

  test("that never led gives nothing up", async () => {
    const { leadership: own, released } = campaign(false);
    await own.end();
    expect(released()).toBe(0);
  });
});
