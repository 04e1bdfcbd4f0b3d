import { once } from "node:events";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { createServer, get } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { PeerCertificate, TLSSocket } from "node:tls";
import { generateSubjectKey, privateKeyPem } from "../../../src/agent/identity/x509-svid.ts";
import { createTestAuthority, type TestAuthority } from "../../testkit/agent/test-authority.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, shown } from "../outcome-table.ts";
import { statusOf } from "./processes/steady-load.ts";
import { type SupervisionOptions, startWithBootstrap } from "./supervision.ts";

const host = "shop.example";
const own = "spiffe://cluster.local/ns/mesh/sa/a";
const peer = "spiffe://cluster.local/ns/mesh/sa/b";

/** A certificate chain and its key, PEM. */
interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** Runs one Envoy as ingress and egress, with certificates of two CAs outside the mesh. */
export async function gateways(options: SupervisionOptions): Promise<readonly Outcome[]> {
  const folder = join(options.folder, "gateway");
  await mkdir(folder);
  const [web, clients, stranger] = await Promise.all(
    ["web", "clients", "stranger"].map((name) => createTestAuthority(name)),
  );
  if (!web || !clients || !stranger) throw new Error("three authorities are needed");
  await writePair(folder, await issue(web, host));
  await writeFile(join(folder, "clients.pem"), clients.pem);
  await writeFile(join(folder, "web.pem"), web.pem);
  await writeFile(join(folder, "stranger.pem"), stranger.pem);
  const outside = await startOutside(await issue(web, "localhost"));
  const [ingress = 0, good = 0, bad = 0, toGood = 0, toBad = 0] = await freePorts(5);
  const local = (port: number): string => `127.0.0.1:${port}`;
  const files = `${folder}/chain.pem~${folder}/key.pem`;
  const agent = await startWithBootstrap(options, [
    ...["--ingress", `${local(ingress)}=${files}=${local(options.inboundPort)}=${peer}`],
    ...["--client-ca", join(folder, "clients.pem")],
    ...["--egress", `${local(good)}=localhost:${outside.port}=${folder}/web.pem`],
    ...["--egress", `${local(bad)}=localhost:${outside.port}=${folder}/stranger.pem`],
    ...["--allow", own],
    // A workload of the mesh that uses the egress.
    ...["--outbound", `${local(toGood)}=${local(good)}=${own}`],
    ...["--outbound", `${local(toBad)}=${local(bad)}=${own}`],
  ]);
  await agent.ready();
  const known = { ca: web.pem, ...(await issue(clients, "client")) };
  const names = { client: "Envoy 1.40.0", server: "rampart agent, file resources" };
  const outcome = (what: string, act: () => Promise<string>) => shown({ ...names, what }, act);
  const outcomes = [
    await outcome("an ingress with its own certificate and a client CA", async () => {
      const [admitted, unknown, other] = [
        await ask(ingress, known),
        await ask(ingress, { ca: web.pem }),
        await ask(ingress, { ca: web.pem, ...(await issue(stranger, "client")) }),
      ];
      if (admitted.status !== "200") throw new Error(`a good client got ${admitted.status}`);
      if (unknown.status === "200" || other.status === "200") throw new Error("it admits anyone");
      return "200 with a client certificate of the CA, refused without and with another";
    }),
    await outcome("the ingress's certificate is replaced in its files", async () => {
      const { serial } = await ask(ingress, known);
      await writePair(folder, await issue(web, host));
      await until(
        "the new certificate",
        async () => {
          const now = await ask(ingress, known);
          return now.status === "200" && now.serial !== serial;
        },
        30,
      );
      return "the next handshake has the new one";
    }),
    await outcome("an egress with the server's roots from a file", async () => {
      const [verified, refused] = [toGood, toBad].map((port) => `http://${local(port)}/`);
      const status = await statusOf(verified ?? "");
      if (status !== "200") throw new Error(`the server that the roots verify: ${status}`);
      const other = await statusOf(refused ?? "");
      if (!other.startsWith("503")) throw new Error(`another CA's server: ${other}`);
      return "200 where the roots verify the server, 503 where they do not";
    }),
  ];
  await agent.end("SIGTERM");
  outside.close();
  return outcomes;
}

const day = 86_400_000;

/** A certificate of a server or a client by its name, for a day, and its key. */
export async function issue(authority: TestAuthority, name: string): Promise<Pair> {
  const { publicKey, privateKey } = await generateSubjectKey({ kind: "EC", curve: "P-256" });
  const now = Date.now();
  const validity = { notBefore: new Date(now - day), notAfter: new Date(now + day) };
  const cert = await authority.issue("", publicKey, { hosts: [name], ...validity });
  return { cert, key: privateKeyPem(privateKey, true) };
}

/** Replaces each file atomically, the key first. */
async function writePair(folder: string, { cert, key }: Pair): Promise<void> {
  for (const [name, content] of [
    ["key.pem", key],
    ["chain.pem", cert],
  ] as const) {
    await writeFile(join(folder, `${name}.new`), content);
    await rename(join(folder, `${name}.new`), join(folder, name));
  }
}

async function startOutside(pair: Pair): Promise<{ readonly port: number; close(): void }> {
  const server = createServer(pair, (_request, response) => response.end("outside\n"));
  // Envoy's resolver may give either address of localhost.
  server.listen(0);
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, close: () => server.close() };
}

/** Asks the ingress in a new connection. @returns The status, or the fault, and the server's serial number. */
function ask(
  port: number,
  tls: Partial<Pair> & { readonly ca: string },
): Promise<{ readonly status: string; readonly serial: string }> {
  return new Promise((resolve) => {
    const options = { ...tls, servername: host, agent: false as const, headers: { host } };
    const request = get(`https://127.0.0.1:${port}/`, options, (response) => {
      const certificate: PeerCertificate = (response.socket as TLSSocket).getPeerCertificate();
      response.resume();
      resolve({ status: String(response.statusCode), serial: certificate.serialNumber });
    });
    request.on("error", (error) => resolve({ status: error.message, serial: "" }));
  });
}
