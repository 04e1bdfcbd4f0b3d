import { X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";
import { Configuration } from "../../../src/config/configuration.ts";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import { rpcPath } from "../../contract/service-under-test.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import {
  scheduleAfter,
  sealNewAuthority,
  withBrokenSeal,
} from "../../testkit/ca/sealed-authorities.ts";

type Phases = readonly [number, number, number, number];

/** Puts an authority into the store whose phases begin at these seconds from now. */
async function addAuthority({ mint, now, store }: RunningCa, phases: Phases) {
  const record = await sealNewAuthority(mint.keks, scheduleAfter(now(), phases));
  await store.put(record);
  return record;
}

const signing: Phases = [-100, -50, 10_000, 20_000];

const statusOf = async ({ app }: RunningCa, path: string) => (await app.request(path)).status;

async function readiness({ app }: RunningCa) {
  const response = await app.request("/readyz");
  const { ready, reasons } = (await response.json()) as { ready: boolean; reasons: string[] };
  return { status: response.status, ready, reasons };
}

const notReady = { status: 503, ready: false, reasons: [expect.any(String)] };

describe("a CA that cannot sign says why at /readyz, and publishes no empty bundle", () => {
  test.each<[string, (running: RunningCa) => unknown, string[]]>([
    ["an empty store", () => {}, [""]],
    [
      "a store in which no record opens",
      async (running) => {
        await running.store.put(withBrokenSeal(await addAuthority(running, signing)));
        await running.store.put({ kind: "authority", id: "junk", value: "junk" });
      },
      ["seal", "form"],
    ],
    [
      "a store that is down",
      ({ store }) => {
        store.outage = new Error("KV GET failed: 500");
      },
      [""],
    ],
  ])("with %s", async (_, arrange, reasons) => {
    const running = await startCa();
    await arrange(running);
    const said = reasons.map((reason) => expect.stringContaining(reason));
    expect(await readiness(running)).toEqual({ ...notReady, reasons: said });
    for (const path of ["/bundle.pem", "/bundle.json"]) {
      const response = await running.app.request(path);
      const wait = expect.stringMatching(/^[234]$/);
      expect([response.status, response.headers.get("retry-after")]).toEqual([503, wait]);
      expect(await response.text()).not.toContain("KV");
    }
    expect(await statusOf(running, "/healthz")).toBe(200);
  });

  test("with an authority that does not sign yet, or no more, whose root it publishes to the end", async () => {
    const running = await startCa();
    await addAuthority(running, [-100, 60, 120, 180]);
    const seen = async () => {
      const { status, ready } = await readiness(running);
      return [status, ready, await statusOf(running, "/bundle.pem")];
    };
    expect(await seen()).toEqual([503, false, 200]);
    for (const expected of [
      [200, true, 200],
      [503, false, 200],
      [503, false, 503],
    ]) {
      running.pass(60);
      expect(await seen()).toEqual(expected);
    }
  });
});

describe("a CA that can sign", () => {
  test("is ready though one record does not open, and says so", async () => {
    const running = await startCa();
    const { id: authority } = await addAuthority(running, signing);
    await running.store.put({ kind: "authority", id: "junk", value: "junk" });
    expect(await (await running.app.request("/readyz")).json()).toMatchObject({ authority });
    expect(await readiness(running)).toEqual({
      status: 200,
      ready: true,
      reasons: [expect.stringContaining("form")],
    });
  });

  test("publishes every root a verifier must accept, oldest first, as one text", async () => {
    const running = await startCa();
    const records = [
      await addAuthority(running, [-300, -200, -100, 10_000]),
      await addAuthority(running, [-200, -100, 5_000, 10_000]),
      await addAuthority(running, [-100, 5_000, 9_000, 10_000]),
      await addAuthority(running, [100, 5_000, 9_000, 10_000]),
      await addAuthority(running, [-900, -800, -700, -600]),
    ];
    const pem = await (await running.app.request("/bundle.pem")).text();
    const blocks = pem.match(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----\n/g) ?? [];
    expect(blocks.join("")).toBe(pem);
    const published = blocks.map((block) => new X509Certificate(block).raw.toString("base64"));
    const certificates = records.map(({ value }) => JSON.parse(value).certificate as string);
    expect(published).toEqual(certificates.slice(0, 3));
    const { keys } = (await (await running.app.request("/bundle.json")).json()) as {
      keys: { x5c: string[] }[];
    };
    expect(keys.map(({ x5c }) => x5c)).toEqual(published.map((root) => [root]));
  });

  test.each([
    ["EC-P384", { kty: "EC", crv: "P-384", x: expect.any(String), y: expect.any(String) }],
    ["RSA-2048", { kty: "RSA", n: expect.any(String), e: "AQAB" }],
  ])("publishes the parameters of a key of the kind %s", async (kind, parameters) => {
    const running = await startCa({ AUTHORITY_KEY: kind }, { hasNoNamesake: true });
    await running.found();
    const { keys } = (await (await running.app.request("/bundle.json")).json()) as {
      keys: unknown[];
    };
    expect(keys).toEqual([{ use: "x509-svid", ...parameters, x5c: [expect.any(String)] }]);
  });

  test("lets caches keep the bundle for the propagation interval, at most a minute", async () => {
    const cacheControl = async (interval: string) => {
      const running = await startCa({ PROPAGATION_INTERVAL: interval });
      await addAuthority(running, signing);
      return (await running.app.request("/bundle.pem")).headers.get("cache-control");
    };
    expect(await cacheControl("0s")).toBe("public, max-age=0");
    expect(await cacheControl("10m")).toBe("public, max-age=60");
  });
});

describe("a fault behind an endpoint", () => {
  test("is answered without its text, and logged", async () => {
    const running = await startCa();
    const { issuance } = running.certificateAuthority;
    Object.assign(issuance, {
      authorities: { at: () => Promise.reject(new TypeError("secret detail")) },
    });
    for (const path of ["/readyz", "/bundle.pem", "/bundle.json"]) {
      const response = await running.app.request(path);
      expect(response.status).toBe(503);
      expect(await response.text()).not.toContain("secret detail");
    }
    const audit = () => {
      throw new TypeError("secret detail");
    };
    const { certificateAuthority, log } = running;
    const app = CaRoutes.create({ ...certificateAuthority, log: { ...log, audit } });
    const response = await app.fetch(new Request(`https://ca.test${rpcPath}?a=b`));
    expect(response.status).toBe(503);
    expect(await response.text()).not.toContain("secret detail");
    expect(running.log.operations.map(({ event, level }) => [event, level])).toEqual(
      Array.from({ length: 4 }, () => ["http-fault", "error"]),
    );
  });
});

describe("a misconfigured CA", () => {
  function misconfigured() {
    try {
      Configuration.parse({ KEK: "secret", ISSUERS: "[" });
    } catch (error) {
      if (error instanceof ConfigurationError) return CaRoutes.misconfigured(error.faults);
    }
    throw new Error("the configuration is valid");
  }
  const send = async (request: Request) => misconfigured().fetch(request);

  test("is alive, and names each faulty key once at /readyz, without its value, for no cache", async () => {
    expect((await misconfigured().request("/healthz")).status).toBe(200);
    const response = await misconfigured().request("/readyz");
    expect(response.status).toBe(503);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const { ready, reasons } = (await response.json()) as { ready: boolean; reasons: string[] };
    expect(ready).toBe(false);
    expect(reasons).toEqual([expect.stringContaining("ISSUERS"), expect.stringContaining("KEK")]);
    expect(reasons.join()).not.toContain("secret");
  });
  test.each(["/bundle.pem", "/bundle.json", "/"])("answers 503 at %s", async (path) => {
    expect((await misconfigured().request(path)).status).toBe(503);
  });

  test("answers native gRPC with anything but success", async () => {
    const headers = { "content-type": "application/grpc" };
    const request = new Request(`https://ca.test${rpcPath}`, { method: "POST", headers });
    expect((await send(request)).status).toBeGreaterThanOrEqual(400);
  });
});
