import { type ClientHttp2Stream, connect } from "node:http2";
import { connect as connectSocket } from "node:net";
import { create, toBinary } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { Secret, SecretSource } from "../../../src/agent/secrets/secret-source.ts";
import { createSecretDiscovery } from "../../../src/agent/sockets/secret-discovery.ts";
import { Subscribers } from "../../../src/agent/subscribers.ts";
import { DiscoveryRequestSchema } from "../../../src/gen/envoy/service/discovery/v3/discovery_pb.ts";
import { SecretDiscoveryService } from "../../../src/gen/envoy/service/secret/v3/sds_pb.ts";
import { grpcFrame } from "../../contract/rpc-calls.ts";
import {
  pemsOf,
  refusalOf,
  SdsStream,
  sdsClient,
  secretsOf,
  serveRpcs,
} from "../../testkit/agent/sds-client.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

/** Secrets that a test sets and removes. */
class MemorySecrets implements SecretSource {
  readonly #secrets = new Map<string, Secret>();
  readonly #changes = new Map<string, Subscribers>();
  loads = 0;
  watches = 0;
  #duringLoad: { readonly n: number; readonly change: () => void } | undefined;

  set(name: string, pem: string | undefined): void {
    if (pem === undefined) this.#secrets.delete(name);
    else this.#secrets.set(name, { kind: "roots", pem });
    this.#changes.get(name)?.notify();
  }

  /** Notifies the watchers without a change. */
  touch(name: string): void {
    this.#changes.get(name)?.notify();
  }

  /** Makes a change in the n-th load from now, behind what that load reads. */
  changeDuringLoad(n: number, change: () => void): void {
    this.#duringLoad = { n: this.loads + n, change };
  }

  async load(name: string): Promise<Secret> {
    this.loads++;
    const secret = this.#secrets.get(name);
    if (this.loads === this.#duringLoad?.n) this.#duringLoad.change();
    if (!secret) throw new Error("no such resource");
    return secret;
  }

  watch(name: string, onChange: () => void): () => void {
    const changes = this.#changes.get(name) ?? new Subscribers();
    this.#changes.set(name, changes);
    this.watches++;
    const end = changes.add(onChange);
    return () => {
      this.watches--;
      end();
    };
  }
}

let source: MemorySecrets;
let log: EventRecorder;
let path: string;
let client: Client<typeof SecretDiscoveryService>;

beforeEach(async () => {
  source = new MemorySecrets();
  log = createEventRecorder();
  source.set("default", "one");
  source.set("ROOTCA", "root");
  const clock = (): Date => new Date("2026-11-21T12:00:00Z");
  const discovery = createSecretDiscovery({ source, clock, log });
  path = await serveRpcs((router) => router.service(SecretDiscoveryService, discovery), log);
  client = sdsClient(path);
});

const nextOf = async (stream: SdsStream): Promise<string> => {
  const secrets = await stream.secrets();
  return secrets.map((secret) => `${secret.name}=${pemsOf(secret)}`).join(" ");
};

test("survives clients that send garbage", async () => {
  const garbage = connectSocket(path)
    .on("error", () => {})
    .resume();
  garbage.end("GET / HTTP/1.1\r\n\r\n");
  await new Promise((resolve) => garbage.on("close", resolve));
  const session = connect("http://agent", { createConnection: () => connectSocket(path) });
  session.on("error", () => {});
  for (const wrong of ["//", "/nothing", "*"]) {
    const stream = session.request({ ":method": "POST", ":path": wrong, ":authority": "%%" });
    stream
      .on("error", () => {})
      .resume()
      .end();
    await new Promise((resolve) => stream.on("close", resolve));
  }
  session.destroy();
  await subscribed("default");
});

/** A stream that has got these secrets. */
async function subscribed(...names: string[]): Promise<SdsStream> {
  const stream = new SdsStream(path);
  stream.subscribe(...names);
  await stream.next();
  return stream;
}

test("answers a subscription, and pushes a change, one resource a response", async () => {
  const stream = new SdsStream(path);
  stream.subscribe("default", "ROOTCA");
  expect(await nextOf(stream)).toBe("default=one ROOTCA=root");
  stream.acknowledge("default", "ROOTCA");
  source.set("ROOTCA", "new");
  expect(await nextOf(stream)).toBe("ROOTCA=new");
});

test("pushes a change that comes while an answer or a push is made", async () => {
  const stream = new SdsStream(path);
  // Each answer loads its secret twice, and has what the second load read.
  source.changeDuringLoad(2, () => source.set("ROOTCA", "withdrawn meanwhile"));
  stream.subscribe("ROOTCA");
  expect(await nextOf(stream)).toBe("ROOTCA=root");
  expect(await nextOf(stream)).toBe("ROOTCA=withdrawn meanwhile");
  source.changeDuringLoad(2, () => source.set("ROOTCA", "last"));
  source.set("ROOTCA", "first");
  expect(await nextOf(stream)).toBe("ROOTCA=first");
  expect(await nextOf(stream)).toBe("ROOTCA=last");
});

test("pushes each of two secrets that change at once", async () => {
  const stream = await subscribed("default", "ROOTCA");
  source.set("default", "two");
  source.set("ROOTCA", "new");
  expect([await nextOf(stream), await nextOf(stream)]).toEqual(["default=two", "ROOTCA=new"]);
});

test("gives each response a nonce and a version of its own", async () => {
  const stream = new SdsStream(path);
  stream.subscribe("default");
  const first = await stream.next();
  source.set("default", "two");
  const second = await stream.next();
  expect(first.versionInfo).toMatch(/^2026-11-21T12:00:00.000Z\/\d+$/);
  expect(second.versionInfo).not.toBe(first.versionInfo);
  expect(second.nonce).not.toBe(first.nonce);
  expect(second.typeUrl).toBe(
    "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
  );
});

test("pushes a change to the streams that watch it, and to no other", async () => {
  const [one, other] = [new SdsStream(path), new SdsStream(path)];
  one.subscribe("default");
  other.subscribe("ROOTCA");
  await Promise.all([one.next(), other.next()]);
  source.set("default", "two");
  expect(await nextOf(one)).toBe("default=two");
  source.set("ROOTCA", "new");
  expect(await nextOf(other)).toBe("ROOTCA=new");
});

test("pushes nothing that has not changed", async () => {
  const stream = await subscribed("default");
  source.touch("default");
  source.set("default", "two");
  expect(await nextOf(stream)).toBe("default=two");
});

test("combines changes in one push for a slow client", async () => {
  const stream = await subscribed("default");
  for (let i = 0; i <= 100; i++) source.set("default", `number ${i}`);
  expect(await nextOf(stream)).toBe("default=number 100");
});

test("ends a stream that asks for a missing secret, and serves the secret once it exists", async () => {
  const stream = new SdsStream(path);
  stream.subscribe("missing");
  expect(await refusalOf(stream.next())).toBe(
    "Unknown: failed to generate secret for missing: no such resource",
  );
  source.set("missing", "found");
  const again = new SdsStream(path);
  again.subscribe("missing");
  expect(await nextOf(again)).toBe("missing=found");
});

test("ends a stream whose secret is removed", async () => {
  const stream = await subscribed("default");
  source.set("default", undefined);
  expect(await refusalOf(stream.next())).toContain("failed to generate secret for default");
});

test("refuses a stream without a node", async () => {
  const stream = new SdsStream(path);
  stream.send({ resourceNames: ["default"] });
  expect(await refusalOf(stream.next())).toBe("InvalidArgument: missing node information");
});

test("refuses a stream or a call with more names than a proxy has, and loads none", async () => {
  const resourceNames = Array.from({ length: 1_025 }, (_, i) => `spiffe://${i}`);
  const stream = new SdsStream(path);
  stream.subscribe(...resourceNames);
  const refusal = "InvalidArgument: a stream has too many names, or too long ones";
  expect(await refusalOf(stream.next())).toBe(refusal);
  expect(await refusalOf(client.fetchSecrets({ resourceNames }))).toBe(refusal);
  expect([source.loads, source.watches]).toEqual([0, 0]);
});

test("refuses a request for anything but secrets", async () => {
  const stream = new SdsStream(path);
  const typeUrl = "type.googleapis.com/envoy.config.listener.v3.Listener";
  const wrong = { node: { id: "e" }, resourceNames: ["default"], typeUrl };
  stream.send(wrong);
  expect(await refusalOf(stream.next())).toContain("InvalidArgument");
  expect(await refusalOf(client.fetchSecrets(wrong))).toContain("InvalidArgument");
});

test("logs a rejection, and goes on", async () => {
  const stream = new SdsStream(path);
  stream.subscribe("default");
  const { nonce } = await stream.next();
  const responseNonce = nonce;
  const message = "bad".repeat(1_000);
  stream.send({ resourceNames: ["default"], responseNonce, errorDetail: { message } });
  stream.send({ resourceNames: ["default", "ROOTCA"], responseNonce });
  expect(await nextOf(stream)).toBe("ROOTCA=root");
  const detail = message.slice(0, 500);
  expect(log.operations).toContainEqual({ event: "sds-rejected", level: "warning", detail });
});

test("ends its watches when a client ends its stream", async () => {
  const stream = await subscribed("default", "ROOTCA");
  expect(source.watches).toBe(2);
  stream.end();
  await expect(stream.next()).rejects.toThrow("the stream has ended");
  expect(source.watches).toBe(0);
});

test("answers a unary call", async () => {
  const response = await client.fetchSecrets({ resourceNames: ["default", "ROOTCA"] });
  expect(secretsOf(response).map(({ name }) => name)).toEqual(["default", "ROOTCA"]);
  expect(await refusalOf(client.fetchSecrets({ resourceNames: ["missing"] }))).toContain("Unknown");
});

test("has no incremental protocol, as in Istio", async () => {
  const responses = client.deltaSecrets((async function* () {})())[Symbol.asyncIterator]();
  expect(await refusalOf(responses.next())).toContain("Unimplemented");
});

test.each(["FetchSecrets", "StreamSecrets"])(
  "makes two answers by %s for a connection that reads none, and serves others",
  async (method) => {
    source.set("ROOTCA", "a".repeat(200_000));
    const session = connect("http://agent", {
      createConnection: () => connectSocket(path),
      settings: { initialWindowSize: 0 },
    });
    onTestFinished(() => session.destroy());
    const request = create(DiscoveryRequestSchema, {
      node: { id: "stranger" },
      resourceNames: ["ROOTCA"],
    });
    const answered: ClientHttp2Stream[] = [];
    let next = (): void => {};
    for (let i = 0; i < 20; i++) {
      const stream = session.request({
        ":method": "POST",
        ":path": `/envoy.service.secret.v3.SecretDiscoveryService/${method}`,
        "content-type": "application/grpc",
      });
      stream.on("error", () => {});
      stream.on("response", () => {
        answered.push(stream);
        next();
      });
      const octets = grpcFrame(toBinary(DiscoveryRequestSchema, request));
      if (method === "FetchSecrets") stream.end(octets);
      else stream.write(octets);
    }
    await eventually(() => expect(answered).toHaveLength(2));
    const honest = { node: { id: "honest" }, resourceNames: ["ROOTCA", "ROOTCA"] };
    const { resources } = await client.fetchSecrets(honest);
    expect([resources.length, answered.length]).toEqual([1, 2]);
    const third = new Promise<void>((resolve) => {
      next = resolve;
    });
    answered[0]?.close();
    await third;
    expect(answered).toHaveLength(3);
    // Those that wait hold no secret, and load none when their connection ends.
    const ofHonest = 2;
    expect(source.loads).toBe(20 + answered.length + ofHonest);
    session.destroy();
    await client.fetchSecrets(honest);
    expect(source.loads).toBe(20 + answered.length + 2 * ofHonest);
  },
);
