import { CaError, messageOf, OperatorError } from "../../foundation/errors.ts";
import { IntermediateRequest } from "../../pki/authority/new-authority.ts";
import { type PhaseLengths, Schedule } from "../../pki/authority/schedule.ts";
import type { SigningAuthority } from "../../pki/authority/signing-authority.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { CaCertificate } from "../../pki/path/certification-path.ts";
import { VerifiedAuthority } from "../../pki/path/verified-authority.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import type { Mint } from "../mint.ts";
import { OpenedStore } from "../opened-store.ts";
import { type UpstreamAnswer, UpstreamError } from "../upstream-authority.ts";
import { NewIntermediate } from "./install-intermediate.ts";

/** The authority that an intermediate succeeds. */
interface Predecessor {
  readonly signsUntil: Date;
  /** Whether its successor is late: then one that lives for too short a time is better than none. */
  readonly isUrgent: boolean;
}

/**
 * Requests an intermediate of the upstream CA for a fresh key, and installs the answer.
 *
 * @throws UpstreamError if none comes, or it cannot be installed: the key is dropped and nothing is stored, so the next
 *   run begins anew.
 */
export async function askUpstream(
  mint: Mint,
  predecessor: Predecessor | undefined,
  now: Date,
): Promise<SigningAuthority> {
  const { upstream, trustDomain, authorityKey, phaseLengths } = mint;
  if (!upstream) throw new Error("AUTHORITY_ROOT is upstream, and no CA upstream was composed");
  const request = await IntermediateRequest.create(trustDomain, authorityKey);
  const lifetimeSeconds = phaseLengths.signingSeconds + 2 * Schedule.leadSeconds(phaseLengths);
  const { authorities } = await OpenedStore.open(await mint.store.load(), mint);
  const knownRoots = authorities.flatMap(({ roots }) => roots);
  const answer = await upstream({ csr: request.csr, lifetimeSeconds, knownRoots });
  try {
    const verified = await verifyAnswer(mint, request, answer, now);
    requireProgress(verified, predecessor, mint.phaseLengths, now);
    const { extractablePrivateKey } = request;
    // The upstream CA may publish more roots than the one above the intermediate, such as its next one.
    const otherRoots = verified.additionalRoots;
    const intermediate = { verified, extractablePrivateKey, otherRoots };
    return await NewIntermediate.install(mint, intermediate, now);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    throw new UpstreamError(`the CA upstream gave no usable intermediate: ${error.message}`);
  }
}

/**
 * Verifies the response of the upstream CA, by the rules of an import.
 *
 * @throws OperatorError for a response that an import would refuse, or that is not for this key.
 */
async function verifyAnswer(
  { trustDomain }: Mint,
  { publicKey }: IntermediateRequest,
  { chain, roots }: UpstreamAnswer,
  now: Date,
): Promise<VerifiedAuthority> {
  const { maximumCertificates: most } = VerifiedAuthority;
  if (Math.max(chain.length, roots.length) > most) {
    throw new OperatorError(`more than ${most} certificates`);
  }
  const [authority, ...others] = chain.map((der, i) => parse(der, `certificate ${i + 1}`));
  if (!authority) throw new OperatorError("no certificate");
  if (!Bytes.equal(authority.publicKey.spki, publicKey.spki)) {
    throw new OperatorError("a certificate for another key");
  }
  if (CaCertificate.isSelfIssued(authority)) throw new OperatorError("a self-signed certificate");
  const anchors = roots.map((der, i) => parse(der, `root ${i + 1}`));
  return VerifiedAuthority.verify({ authority, others, anchors }, trustDomain, now);
}

/**
 * Refuses an intermediate after which every run would ask for another: one that lives for less than the three leads of a
 * rotation, or ends no later than its predecessor.
 */
function requireProgress(
  { notAfter }: VerifiedAuthority,
  predecessor: Predecessor | undefined,
  lengths: PhaseLengths,
  now: Date,
): void {
  const life = (notAfter.getTime() - now.getTime()) / 1000;
  const needed = 3 * Schedule.leadSeconds(lengths);
  const until = notAfter.toISOString();
  if (life < needed && !predecessor?.isUrgent) {
    throw new OperatorError(
      `it lives until ${until} only: with MAX_WORKLOAD_CERT_TTL and PROPAGATION_INTERVAL as they are, an ` +
        `intermediate must live for ${Math.ceil(needed / 3600)} hours`,
    );
  }
  const signsUntil = addSeconds(notAfter, -Schedule.leadSeconds(lengths));
  if (predecessor && signsUntil <= predecessor.signsUntil) {
    throw new OperatorError(`it lives until ${until} only, no longer than what it would succeed`);
  }
}

function parse(der: Bytes, place: string): CaCertificate {
  try {
    return CaCertificate.parse(der, place);
  } catch (error) {
    if (!(error instanceof DerError || error instanceof CaError)) throw error;
    throw new OperatorError(`${place}: ${messageOf(error)}`);
  }
}
