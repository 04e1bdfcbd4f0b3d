import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@grpc/grpc-js";
import type { Answer, CertificateClient, CertificateFiles, Server } from "./client.ts";
import { holder, inFiles, pilotAgentRequest } from "./credentials.ts";
import { callOn, connect, grpcJsClient } from "./grpc-js.ts";
import type { Mesh } from "./mesh.ts";
import type { Tally } from "./play.ts";
import type { Scratch } from "./scratch.ts";
import type { Lifetimes } from "./servers.ts";
import { certificatesIn, opensslFault } from "./verdicts.ts";

/** Long enough for a round of everybody, short enough to wait for the next authority. */
const leaves = { DEFAULT_WORKLOAD_CERT_TTL: "30s", MAX_WORKLOAD_CERT_TTL: "30s" };

/** The Worker rotates by its cron; with an authority for an hour, serve does only when it is told to. */
export const rotationLifetimes: Lifetimes = {
  serve: { ...leaves, AUTHORITY_LIFETIME: "1h" },
  worker: { ...leaves, AUTHORITY_LIFETIME: "120s" },
};

const patienceSeconds = 240;

/** One client and one server, through a rotation. */
export interface Pair {
  readonly client: CertificateClient;
  readonly server: Server;
  readonly tally: Tally;
}

/** What a pair has in its hands when the authority changes. */
interface Held {
  readonly files: CertificateFiles;
  readonly rootsFile: string;
  readonly signedBy: string;
}

/**
 * Everybody gets certificates again and again until another authority signs; then each renews, by the
 * certificate from before and by token. What came before and after must verify with either bundle.
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
  const until = Date.now() + patienceSeconds * 1000;
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

/** Keeps what the first authority signs: the rotation may come in the middle of a round. */
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

/** As the mesh distributes them, to whoever verifies the server. */
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
