import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@grpc/grpc-js";
import type { Answer, CertificateClient, CertificateFiles, Server } from "./clients/client.ts";
import { callOn, connect, grpcJsClient } from "./clients/grpc-js.ts";
import { holder, inFiles, pilotAgentRequest } from "./credentials.ts";
import type { Mesh } from "./mesh.ts";
import type { Tally } from "./play.ts";
import type { Scratch } from "./scratch.ts";
import type { Lifetimes } from "./servers/servers.ts";
import { certificatesIn, opensslFault } from "./verdicts.ts";

/** A life that lasts for a round of all clients, and ends soon enough to wait for the next authority. */
const leaves = { DEFAULT_WORKLOAD_CERT_TTL: "30s", MAX_WORKLOAD_CERT_TTL: "30s" };

/** The Worker rotates by its cron. `serve`, with an authority for an hour, rotates only by the verb. */
export const rotationLifetimes: Lifetimes = {
  serve: { ...leaves, AUTHORITY_LIFETIME: "1h" },
  worker: { ...leaves, AUTHORITY_LIFETIME: "120s" },
};

const longestWaitSeconds = 240;

/** One client and one server, through a rotation. */
export interface Pair {
  readonly client: CertificateClient;
  readonly server: Server;
  readonly tally: Tally;
}

/** The certificates of a pair when the authority changes. */
interface Held {
  readonly files: CertificateFiles;
  readonly rootsFile: string;
  readonly signedBy: string;
}

/**
 * All clients get certificates until another authority signs. Then each renews with its old certificate
 * and with a token. The chains from before and after must verify with either bundle.
 */
export async function playRotation(
  servers: readonly Server[],
  pairs: readonly Pair[],
  mesh: Mesh,
  scratch: Scratch,
): Promise<void> {
  await Promise.all(
    servers.map((server) => {
      const own = pairs.filter((pair) => pair.server === server);
      return rotate(server, own, mesh, scratch);
    }),
  );
}

async function rotate(
  server: Server,
  pairs: readonly Pair[],
  mesh: Mesh,
  scratch: Scratch,
): Promise<void> {
  const first = await server.signer();
  const token = await mesh.token(holder);
  const open = connect(server, {});
  const held = new Map<Pair, Held>();
  const until = Date.now() + longestWaitSeconds * 1000;
  do {
    await refreshRoots(server);
    for (const pair of pairs) {
      await hold(pair, held, token, scratch);
    }
    await keepOpen(open, token);
    await sleep(1_000);
  } while ((await server.signer()) === first && Date.now() < until);
  await refreshRoots(server);
  for (const pair of pairs) await renew(pair, held.get(pair), token, scratch);
  const { tally } = pairs.find(({ client }) => client === grpcJsClient) ?? {};
  await tally?.show("a connection from before a rotation", keepOpen(open, token));
  open.close();
}

/** Keeps the chains of the first authority, because the rotation may come amid a round. */
async function hold(
  pair: Pair,
  held: Map<Pair, Held>,
  token: string,
  scratch: Scratch,
): Promise<void> {
  try {
    const obtained = await obtain(pair, { token }, scratch);
    const { signedBy } = held.get(pair) ?? obtained;
    if (obtained.signedBy === signedBy) held.set(pair, obtained);
  } catch (error) {
    await pair.tally.show("a token while a rotation is under way", Promise.reject(error));
  }
}

/** Distributes the roots to the clients, as a mesh does. */
async function refreshRoots({ tls, bundle }: Server): Promise<void> {
  if (tls) await writeFile(tls.rootsFile, await bundle());
}

async function keepOpen(open: Client, token: string): Promise<string | undefined> {
  const { csr } = await pilotAgentRequest(holder.spiffeId);
  const answer = await callOn(open, { csr, validitySeconds: 0, token });
  return "message" in answer ? `${answer.code} (${answer.message})` : undefined;
}

async function obtain(
  { client, server }: Pair,
  credential: { readonly token: string } | { readonly certificate: CertificateFiles },
  scratch: Scratch,
): Promise<Held> {
  const { csr, keyPem } = await pilotAgentRequest(holder.spiffeId);
  const call = { csr, validitySeconds: 0, clusterId: "Kubernetes", ...credential };
  const chain = chainOf(await client.createCertificate(server, call));
  const [leaf = ""] = chain;
  const roots = chain.at(-1) ?? "";
  const rootsFile = await scratch.file("roots", roots);
  return {
    files: await inFiles(scratch, leaf, keyPem),
    rootsFile,
    signedBy: signerIn(leaf, roots),
  };
}

function chainOf(answer: Answer): readonly string[] {
  if ("certChain" in answer) return answer.certChain;
  throw new Error(`${answer.code} (${answer.message})`);
}

/** The fingerprint of the root whose key has signed a leaf. */
function signerIn(leaf: string, roots: string): string {
  const candidates = certificatesIn(roots).map((pem) => new X509Certificate(pem));
  const { publicKey, fingerprint256 } =
    candidates.find((root) => new X509Certificate(leaf).verify(root.publicKey)) ?? {};
  if (!publicKey || !fingerprint256) throw new Error("no root has signed the leaf");
  return fingerprint256;
}

async function renew(
  pair: Pair,
  before: Held | undefined,
  token: string,
  scratch: Scratch,
): Promise<void> {
  if (!before) return;
  const credentials = {
    "a token after a rotation": { token },
    "a certificate from before a rotation": { certificate: before.files },
  };
  for (const [what, credential] of Object.entries(credentials)) {
    await pair.tally.show(what, renewalFault(pair, before, credential, scratch));
  }
}

async function renewalFault(
  pair: Pair,
  before: Held,
  credential: Parameters<typeof obtain>[1],
  scratch: Scratch,
): Promise<string | undefined> {
  const after = await obtain(pair, credential, scratch);
  if (after.signedBy === before.signedBy) return "the same authority has signed";
  return (
    (await opensslFault(after.files.certificateFile, before.rootsFile, "sslserver")) ??
    (await opensslFault(before.files.certificateFile, after.rootsFile, "sslserver"))
  );
}
