import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { type ConnectionOptions, connect, createServer, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { createBootstrap } from "../../src/agent/envoy/envoy-bootstrap.ts";
import { causeOf } from "../../src/foundation/errors.ts";
import { HttpClient, parseTarget } from "../../src/program/http/http-client.ts";
import { CompliancePolicy, Handshake } from "../../src/program/tls-policy.ts";
import { issuerTables } from "../contract/service-under-test.ts";
import { createTestAuthority } from "../testkit/agent/test-authority.ts";
import { createTokenKey, jwksOf } from "../testkit/callers/tokens.ts";
import { randomKek } from "../testkit/configuration.ts";
import {
  serveToml,
  startProgram,
  startRampart,
  startServe,
} from "../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

async function serveWith(secrets: Readonly<Record<string, string>>) {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const jwks = jwksOf(await createTokenKey("ES256", "k1"));
  const values = { PROPAGATION_INTERVAL: "0s", ISSUERS: [{ ...issuerTables.cluster, jwks }] };
  await writeFile(config, serveToml(join(folder, "store"), values));
  const serve = await startServe(config, randomKek(), secrets);
  /** The group of a handshake, or the code of its failure. */
  const shake = async (options: ConnectionOptions): Promise<string> => {
    const socket = connect({
      port: serve.port,
      host: "127.0.0.1",
      rejectUnauthorized: false,
      ...options,
    });
    try {
      await once(socket, "secureConnect");
      const { name: agreed = "none" } = socket.getEphemeralKeyInfo() as { name?: string };
      socket.end("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
      await once(socket.resume(), "close");
      return agreed;
    } catch (error) {
      return String((error as NodeJS.ErrnoException).code);
    } finally {
      socket.destroy();
    }
  };
  const handshakes = async (): Promise<string[]> => {
    const metrics = await (await fetch(`http://${serve.monitoringAddress}/metrics`)).text();
    return metrics.match(/(?<=^rampart_tls_handshakes_total\{group=").*/gm) ?? [];
  };
  return { shake, handshakes, lines: serve.lines };
}

test("by default a server agrees on the post-quantum group, serves classical clients, and counts each", async () => {
  const { shake, handshakes } = await serveWith({});
  expect(await shake({})).toBe(CompliancePolicy.postQuantumGroup);
  // Its key share for the first group is none that the server prefers.
  expect(await shake({ ecdhCurve: `X25519:${CompliancePolicy.postQuantumGroup}` })).toBe(
    CompliancePolicy.postQuantumGroup,
  );
  expect(await shake({ ecdhCurve: "X25519" })).toBe("X25519");
  expect(await shake({ ecdhCurve: "P-256", maxVersion: "TLSv1.2" })).toMatch(/256/);
  expect(await handshakes()).toEqual([
    `${CompliancePolicy.postQuantumGroup}"} 2`,
    'X25519"} 1',
    'P-256"} 1',
  ]);
});

test("under pqc a server refuses every other group, TLS 1.2 and ChaCha20", async () => {
  const { shake, handshakes, lines } = await serveWith({ COMPLIANCE_POLICY: "pqc" });
  expect(await shake({})).toBe(CompliancePolicy.postQuantumGroup);
  const others: ConnectionOptions[] = [
    { ecdhCurve: "X25519" },
    { ecdhCurve: "P-256:P-384" },
    { maxVersion: "TLSv1.2" },
    { ciphers: "TLS_CHACHA20_POLY1305_SHA256" },
  ];
  for (const each of others) expect(await shake(each)).toMatch(/^ERR_SSL_|ECONNRESET/);
  expect(await handshakes()).toEqual([`${CompliancePolicy.postQuantumGroup}"} 1`, 'none"} 4']);
  expect(lines.filter((line) => line.includes("handshake-refused"))).toEqual([
    expect.stringContaining(`a client without ${CompliancePolicy.postQuantumGroup} was refused`),
  ]);
});

type Environment = Readonly<Record<string, string>>;

const upstream = "127.0.0.1";

/** Programs that begin with a call to the CA at a port, in an environment. */
const callers: Readonly<
  Record<string, (port: number, rootFile: string, environment: Environment) => unknown>
> = {
  agent: (port, rootFile, environment) =>
    startRampart(["agent", "run"], {
      ...environment,
      CA_ADDR: `${upstream}:${port}`,
      CA_ROOT_CA: rootFile,
      RAMPART_SDS_SOCKET: `${rootFile}.sds`,
      POD_NAMESPACE: "a",
      SERVICE_ACCOUNT: "b",
      RAMPART_TOKEN_FILE: `${rootFile}.token`,
    }),
  gateway: (port, _, environment) =>
    startProgram("gateway", { UPSTREAM: `https://${upstream}:${port}` }, environment),
};

test.each<[Environment, string, RegExp]>([
  // The extension supported_groups: its type, two lengths, X25519MLKEM768, X25519 (RFC 8446 §4.2.7).
  [{}, "agent", /000a[0-9a-f]{8}11ec001d/],
  // The two suites of AES-GCM alone (RFC 8446 §4.1.2), and the group alone.
  [{ COMPLIANCE_POLICY: "pqc" }, "gateway", /000413021301.*000a0004000211ec/],
  [{ GODEBUG: "prometheus=1,tlsmlkem=0" }, "gateway", /000a[0-9a-f]{8}001d/],
])(
  "with %j %s offers the groups of its policy, in one packet where the post-quantum one is left out",
  async (environment, name, offer) => {
    const hello = Promise.withResolvers<Buffer>();
    const server = createTcpServer((socket) => {
      onTestFinished(() => void socket.destroy());
      socket.once("data", hello.resolve);
    });
    await once(server.listen(0, upstream), "listening");
    onTestFinished(() => void server.close());
    const rootFile = join(await temporaryFolder(), "root.pem");
    await writeFile(rootFile, (await createTestAuthority()).pem);
    await callers[name]?.((server.address() as AddressInfo).port, rootFile, environment);
    const message = await hello.promise;
    expect(message.toString("hex")).toMatch(offer);
    expect(message.length < 1_200).toBe("GODEBUG" in environment);
  },
);

test("a client under pqc says why a classical server refuses it", async () => {
  // The group is chosen before the certificate, so this server needs none.
  const server = createServer({ ecdhCurve: "X25519" });
  await once(server.listen(0, "127.0.0.1"), "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const socket = connect({
      port,
      host: "127.0.0.1",
      ecdhCurve: CompliancePolicy.postQuantumGroup,
    });
    const [error] = await once(socket, "error");
    expect(Handshake.faultOf(error)).toMatch(
      /^the peer has no TLS version, group or cipher suite in common/,
    );
    expect(causeOf(error)).toContain("HANDSHAKE_FAILURE");
  } finally {
    server.close();
  }
});

test.each([
  ["fips-140-2", "needs a validated module"],
  ["fips-140-3", "needs a validated module"],
  ["PQC", 'must be "pqc"'],
])("the policy %s is refused", (policy, why) => {
  expect(CompliancePolicy.faultIn(policy)).toContain(why);
});

test("a policy that cannot be is refused by a program, in one sentence", async () => {
  const program = startRampart(["authority", "list"], { COMPLIANCE_POLICY: "PQC" });
  expect((await program.ended).exitCode).toBe(1);
  expect(program.lines.join("\n")).toMatch("COMPLIANCE_POLICY: ");
});

test("the bootstrap of an Envoy under pqc offers that group and TLS 1.3 alone", () => {
  const to = { host: "127.0.0.1", port: 1 };
  const peers = { trustDomain: "cluster.local" };
  const options = {
    nodeId: "a",
    nodeCluster: "a",
    sdsSocket: "/s",
    admin: to,
    inbound: [{ listen: to, forward: to, peers }],
    outbound: [{ listen: to, connect: to, peers }],
    ingress: [
      {
        listen: to,
        connect: to,
        peers,
        clientCa: undefined,
        certificate: { chainFile: "/c", keyFile: "/k" },
      },
    ],
    egress: [{ listen: to, connect: to, peers, root: "system" as const }],
  };
  const parameters = (policy: "" | "pqc") =>
    JSON.stringify(createBootstrap({ ...options, policy })).match(/"tls_params":\{[^}]*\}/g);
  expect(new Set(parameters("pqc"))).toEqual(
    new Set([
      `"tls_params":{"tls_minimum_protocol_version":"TLSv1_3","tls_maximum_protocol_version":"TLSv1_3","ecdh_curves":["${CompliancePolicy.postQuantumGroup}"]}`,
    ]),
  );
  expect(parameters("pqc")).toHaveLength(6);
  expect(String(parameters(""))).not.toContain("ecdh_curves");
});

test.each([
  ["5f", "other"],
  ["b304020211ec", CompliancePolicy.postQuantumGroup],
  ["b30302011d", "X25519"],
  ["b304020211eb", "other"],
  ["", "other"],
])("a session that ends in %s is of the group %s", (hex, group) => {
  const socket = { getSession: () => Buffer.from(hex, "hex") };
  expect(Handshake.groupOf(socket as TLSSocket)).toBe(group);
});

test("a server of a Node that was started with TLS 1.3 alone serves no TLS 1.2", async () => {
  const { shake } = await serveWith({ NODE_OPTIONS: "--tls-min-v1.3" });
  expect(await shake({ maxVersion: "TLSv1.3" })).toBe(CompliancePolicy.postQuantumGroup);
  expect(await shake({ maxVersion: "TLSv1.2" })).toBe("ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION");
});

test("pqc and GODEBUG with tlsmlkem=0 contradict each other", () => {
  const both = { COMPLIANCE_POLICY: "pqc", GODEBUG: "tlsmlkem=0" };
  expect(() => CompliancePolicy.follow(both)).toThrow("pqc contradicts GODEBUG=tlsmlkem=0");
});

test("a handshake that a server never finishes is named, with what to try", async () => {
  const server = createTcpServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const target = parseTarget(`https://127.0.0.1:${port}/`);
  const ended = new AbortController();
  // A first message shows that its client has a connection.
  let messages = 0;
  const timeIsUp = () => ended.abort(new DOMException("The time is up.", "TimeoutError"));
  server.on("connection", (socket) => socket.once("data", () => ++messages === 2 && timeIsUp()));
  const limits = [{ timeoutMilliseconds: 2000 }, { signal: ended.signal }];
  const hinted = limits.map(async (limit) => {
    const client = new HttpClient({}, 1);
    onTestFinished(client.close);
    const call = client.send({ target, method: "GET", headers: {}, ...limit }, 1);
    await expect(call).rejects.toThrow("GODEBUG=tlsmlkem=0");
  });
  await Promise.all(hinted);
});
