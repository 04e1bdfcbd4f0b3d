import { X509Certificate } from "node:crypto";
import type { AuthorityView } from "../../../src/ca/authority-view.ts";
import type { AuditEvent } from "../../../src/ca/issuance/audit-event.ts";
import { issueCertificate } from "../../../src/ca/issuance/issue-certificate.ts";
import { Mint } from "../../../src/ca/mint.ts";
import { OpenedStore } from "../../../src/ca/opened-store.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { createTaint, type Departure } from "../../../src/pki/authority/new-taint.ts";
import { Succession } from "../../../src/pki/authority/rotation.ts";
import type { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import type { Taint } from "../../../src/pki/authority/taint.ts";
import { wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { createWorkload } from "../callers/workload.ts";
import { clusterLocal, proved, workload } from "../pki/certificates.ts";
import { type Means, type RunningCa, startCa } from "./running-ca.ts";

/** How many records of a kind the store of a CA holds. */
export const countOf = ({ store }: RunningCa, kind: string): number =>
  [...store.records.keys()].filter((key) => key.startsWith(`${kind}/`)).length;

/** The propagation interval of these CAs, and the refresh interval of an isolate, in seconds. */
export const propagation = 600;
export const refresh = 60;

/** A CA whose first authority signs. */
export async function startSigningCa(
  values: Readonly<Record<string, unknown>> = {},
  means: Means = {},
): Promise<RunningCa> {
  const ca = await startCa({ PROPAGATION_INTERVAL: `${propagation}s`, ...values }, means);
  await ca.found();
  ca.pass(2 * propagation);
  return ca;
}

/** The store, opened as a reader opens it. */
export async function openStore(mint: Mint): Promise<OpenedStore> {
  const stored = await mint.store.load();
  return OpenedStore.open(stored, mint);
}

export const viewOf = async ({ certificateAuthority, now }: RunningCa): Promise<AuthorityView> =>
  certificateAuthority.issuance.authorities.at(now());

/** The id of the signing authority, if there is one. */
export const signerOf = async (ca: RunningCa): Promise<string | undefined> =>
  (await viewOf(ca)).issuer?.authority.id;

/** Moves the clock of the CA to this instant. */
export const passUntil = (ca: RunningCa, instant: Date): void =>
  ca.pass((instant.getTime() - ca.now().getTime()) / 1000);

/** A CA whose successor has been published for an hour, and the ids of both authorities. */
export async function startWithSuccessor(means: Means = {}): Promise<{
  readonly ca: RunningCa;
  readonly first: string;
  readonly successor: SigningAuthority;
}> {
  const ca = await startSigningCa({}, means);
  const first = await signerOf(ca);
  const { authorities } = await openStore(ca.mint);
  const [{ schedule } = { schedule: undefined }] = authorities;
  if (!schedule || !first) throw new Error("no authority");
  passUntil(ca, Succession.mintDue(schedule.signsUntil, ca.mint.phaseLengths));
  await Rotation.rotate(ca.mint, ca.now());
  ca.pass(propagation + 3600);
  const successor = (await openStore(ca.mint)).authorities.find(({ id }) => id !== first);
  if (!successor) throw new Error("no successor");
  return { ca, first, successor };
}

/** The taint that an operator would record now. */
export async function decideTaint(
  ca: RunningCa,
  departure: Departure,
  id?: string,
): Promise<Taint> {
  const wanted = id ?? (await signerOf(ca));
  if (!wanted) throw new Error("nothing to taint");
  const store = await openStore(ca.mint);
  return createTaint(store, wanted, departure, ca.mint.phaseLengths, ca.now());
}

/** Taints the authority with this id, or the signing one, and runs the cron as the verb does. */
export async function taint(ca: RunningCa, departure: Departure, id?: string): Promise<Taint> {
  const decided = await decideTaint(ca, departure, id);
  await Mint.recordTaint(ca.mint, decided);
  await Rotation.rotate(ca.mint, ca.now());
  return decided;
}

export async function readiness({
  app,
}: RunningCa): Promise<{ ready: boolean; reasons: string[] }> {
  const { ready, reasons } = (await (await app.request("/readyz")).json()) as {
    ready: boolean;
    reasons: string[];
  };
  return { ready, reasons };
}

/** The published SPIFFE bundle, if there is one: its sequence, and each root in base64. */
export async function publishedBundle({
  app,
}: RunningCa): Promise<{ sequence: number; roots: string[] } | undefined> {
  const response = await app.request("/bundle.json");
  if (response.status !== 200) return undefined;
  const { spiffe_sequence, keys } = (await response.json()) as {
    spiffe_sequence: number;
    keys: { x5c: [string] }[];
  };
  return { sequence: spiffe_sequence, roots: keys.map(({ x5c: [root] }) => root) };
}

const { csrPem } = await createWorkload();
const account = { namespace: "foo", name: "httpbin" };

/** The answer to a workload that waits for it: its leaf, and the roots in the last element. */
export async function issueLeaf(
  { certificateAuthority, now }: RunningCa,
  requestedSeconds = 0,
  signal: AbortSignal = new AbortController().signal,
): Promise<{
  readonly leaf: X509Certificate;
  readonly chain: readonly string[];
  readonly roots: readonly X509Certificate[];
}> {
  const caller = {
    spiffeId: workload("foo", "httpbin", clusterLocal),
    account,
    proof: { ...proved, provedAt: wholeSeconds(now()) },
  };
  const request = {
    csrPem,
    requestedSeconds: BigInt(requestedSeconds),
    impersonatedIdentity: "",
    certSigner: "",
  };
  const audit = { event: "create-certificate", outcome: "failed" } as AuditEvent;
  const context = { now: now(), signal, audit };
  const chain = await issueCertificate(certificateAuthority.issuance, caller, request, context);
  const blocks = chain.at(-1)?.match(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----\n/g) ?? [];
  return {
    leaf: new X509Certificate(chain[0] ?? ""),
    chain,
    roots: blocks.map((block) => new X509Certificate(block)),
  };
}

/** The key, in a memory store, of the last statement about an authority. */
export function taintKeyOf({ store }: RunningCa, id: string): string {
  return (
    [...store.records.keys()].findLast((key) => key.startsWith(`taint/${id}`)) ?? `taint/${id}`
  );
}
