import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { CallerAddress } from "../../../src/foundation/shares.ts";
import { TrustedProxies } from "../../../src/node/limits/trusted-proxies.ts";
import { issuerTables, rpcPath } from "../../contract/service-under-test.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";

const from = (credential: string, peer = "10.0.0.7") => ({
  "x-rampart-gateway": credential,
  "x-rampart-peer": peer,
});

/** Doors on a clock of their own: each credential `name#…` proves the gateway of that name. */
function start(isGateway = (name: string) => name !== "stranger") {
  let now = 0;
  const asked: string[] = [];
  const proxies = new TrustedProxies(
    async (credential) => {
      asked.push(credential);
      const [name = ""] = credential.split("#");
      return isGateway(name) ? name : undefined;
    },
    () => now,
  );
  const pass = (milliseconds: number): void => {
    now += milliseconds;
  };
  const show = (credential: string) => proxies.authenticationOf(from(credential))?.();
  return { proxies, asked, pass, show };
}

describe("a gateway", () => {
  test("counts as a gateway once its credential is proved, and its callers count by their own addresses", async () => {
    const { proxies, show } = start();
    expect(proxies.proxyOf(from("g"))).toBeUndefined();
    await show("g");
    const [one, other] = ["10.0.0.7", "2001:db8::1"].map((peer) =>
      proxies.proxyOf(from("g", peer)),
    );
    expect([one?.proxy, other?.proxy]).toEqual(["g", "g"]);
    expect(one?.address).not.toBe(other?.address);
    expect(CallerAddress.networkOf(one?.address ?? "")).toBe(
      CallerAddress.networkOf(other?.address ?? ""),
    );
    expect(proxies.proxyOf({ "x-rampart-peer": "10.0.0.7" })).toBeUndefined();
  });

  test("is never a caller whose credential proves another account", async () => {
    const { proxies, show, asked, pass } = start();
    await show("stranger");
    await show("stranger");
    expect(proxies.proxyOf(from("stranger"))).toBeUndefined();
    expect(asked).toEqual(["stranger"]);
    pass(5000);
    await show("stranger");
    expect(asked).toHaveLength(2);
    expect(proxies.authenticationOf(from("x".repeat(5000)))).toBeUndefined();
  });

  test("has its credential proved anew after 30 seconds, and counts as a gateway meanwhile", async () => {
    let isListed = true;
    const { proxies, show, asked, pass } = start(() => isListed);
    await show("g");
    pass(29_999);
    expect(show("g")).toBeUndefined();
    isListed = false;
    pass(1);
    const renewal = show("g");
    expect(proxies.proxyOf(from("g"))?.proxy).toBe("g");
    await renewal;
    expect(proxies.proxyOf(from("g"))).toBeUndefined();
    expect(asked).toHaveLength(2);
  });

  test("has its credential proved once for requests that come together, and again after a failure", async () => {
    let isAway = true;
    const { proxies, asked, show } = start((name) => {
      if (isAway) throw new Error("away");
      return name === "g";
    });
    await expect(show("g")).rejects.toThrow("away");
    isAway = false;
    const together = [1, 2].map(() => proxies.authenticationOf(from("g")));
    await Promise.all([...together.map((prove) => prove?.()), show("g")]);
    expect(proxies.proxyOf(from("g"))?.proxy).toBe("g");
    expect(asked).toHaveLength(2);
  });

  test("counts as a gateway no longer once its proof is a minute old", async () => {
    const { proxies, show, pass } = start();
    await show("g");
    pass(60_000);
    expect(proxies.proxyOf(from("g"))).toBeUndefined();
  });

  test("stays known however many other credentials callers show", async () => {
    const { proxies, show } = start();
    await show("g");
    for (let i = 0; i < 500; i++) await show(`hostile#${i}`);
    for (let i = 0; i < 500; i++) await show(`stranger#${i}`);
    expect(proxies.proxyOf(from("g"))?.proxy).toBe("g");
    expect(proxies.proxyOf(from("hostile#0"))).toBeUndefined();
    expect(proxies.proxyOf(from("hostile#499"))?.proxy).toBe("hostile");
  });
});

/** `serve` that takes one connection of an address, and calls of an account over one connection. */
async function startServed(account: string) {
  const key = await createTokenKey("ES256", "k1");
  const { issuer } = issuerTables.cluster;
  const gateways = [{ account: "edge/gateway", dns_names: ["gateway.test"] }];
  const served = await serveCa({
    ISSUERS: [{ issuer, jwks: jwksOf(key), gateways }],
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    LIMITS: { connections_per_address: 1 },
  });
  onTestFinished(() => served.end());
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const port = served.server.plaintextAddress?.port ?? 0;
  const token = await mintAccountToken(key, issuer, account, new Date());
  const ask = async (): Promise<{ reusesSocket: boolean }> => {
    const headers = { authorization: "Bearer e30.e30.e30", ...from(`Bearer ${token}`) };
    const asked = request({
      port,
      host: "127.0.0.1",
      agent,
      method: "POST",
      path: rpcPath,
      headers,
    });
    asked.end();
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    await once(answer.resume(), "end");
    return { reusesSocket: asked.reusedSocket };
  };
  return { port, ask, agent };
}

/** Another connection of the same address, with an answer. */
async function connectAnother(port: number): Promise<void> {
  const socket = connect({ port, host: "127.0.0.1" });
  onTestFinished(() => void socket.destroy());
  socket.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
  await once(socket, "data");
}

test.each([
  ["of a listed gateway stays open", "edge:gateway", true],
  ["of any other account gives way", "edge:stranger", false],
])("the connection %s when another of its address comes", async (_, account, stays) => {
  const { port, ask, agent } = await startServed(account);
  await ask();
  // The first call is the one that proves the gateway.
  expect(await ask()).toEqual({ reusesSocket: true });
  const [[socket] = []] = Object.values(agent.freeSockets);
  const closed = socket && once(socket, "close");
  await connectAnother(port);
  if (!stays) await closed;
  expect(await ask()).toEqual({ reusesSocket: stays });
});
