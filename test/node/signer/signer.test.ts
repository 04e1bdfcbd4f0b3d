import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { pause } from "../../../src/foundation/pause.ts";
import { runSigner } from "../../../src/node/signer/signer.ts";
import { SignerConfiguration } from "../../../src/node/signer/signer-configuration.ts";
import { createTokenKey, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

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
