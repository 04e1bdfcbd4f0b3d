import { OpenedStore } from "../../../ca/opened-store.ts";
import { adoptAuthority } from "../../../ca/rotation/adopt.ts";
import { NewIntermediate } from "../../../ca/rotation/install-intermediate.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import type { PluggedInImport } from "../../../node/server.ts";
import type { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { Taint } from "../../../pki/authority/taint.ts";
import { Bytes, Hex } from "../../../pki/encoding/bytes.ts";
import { CaCertificate } from "../../../pki/path/certification-path.ts";
import type { VerifiedAuthority } from "../../../pki/path/verified-authority.ts";
import type { TrustDomain } from "../../../pki/spiffe-id.ts";
import { quoted } from "../../terminal/text.ts";
import type { PluggedInMaterial } from "./ca-entries.ts";
import { loadDirectory } from "./load.ts";
import { type ImportedCertificate, readCertificate, readCertificates } from "./pem-files.ts";
import { type ImportedCertificates, logImportWarnings, verifyPluggedIn } from "./verify.ts";

/**
 * Imports a directory for `rampart serve`. If the store already has the authority, nothing changes. It does not rotate. A
 * new root needs no confirmation: the operator who names the directory in the configuration trusts whoever may write there.
 * @throws OperatorError for records that do not open, files that do not verify, and those that {@link
 *   requireNothingNew} refuses.
 */
export const importPluggedIn: PluggedInImport = async (mint, directory, now) => {
  const material = await loadDirectory(directory);
  const store = await OpenedStore.open(await mint.store.load(), mint);
  const known = knownAuthority(material, store);
  if (known) {
    return requireNothingNew(material, { known, store, trustDomain: mint.trustDomain }, now);
  }
  if (store.refusals.length > 0)
    throw new OperatorError("the store holds records that do not open");
  const imported = await verifyPluggedIn(material, mint.trustDomain, now);
  logImportWarnings(imported, mint.log);
  const { certificates, privateKey: extractablePrivateKey, additionalRoots } = imported;
  if (store.authorities.length === 0) {
    const adopted = { certificates, extractablePrivateKey, additionalRoots };
    await adoptAuthority(mint, adopted, now);
  } else {
    const otherRoots = otherRootsOf(imported, bundleRoots(store, now));
    await NewIntermediate.install(
      mint,
      { verified: imported, extractablePrivateKey, otherRoots },
      now,
    );
  }
};

/**
 * Finds the authority of the store with this CA certificate, because a job may import a directory again and again;
 * `undefined` if it has none.
 * @throws OperatorError for an unreadable certificate.
 */
export function knownAuthority(
  { certificate }: PluggedInMaterial,
  { authorities }: OpenedStore,
): SigningAuthority | undefined {
  const [own] = readCertificates(certificate);
  return authorities.find((each) => own && Bytes.equal(each.certificate.der, own.der));
}

interface Knowledge {
  readonly known: SigningAuthority;
  readonly store: OpenedStore;
  readonly trustDomain: TrustDomain;
}

/**
 * Refuses changes of the files beside a CA certificate that the store has. No import can store such a change, because a
 * record never changes.
 * @throws OperatorError that says which file changed, or what is wrong in one.
 */
export async function requireNothingNew(
  material: PluggedInMaterial,
  { known, store, trustDomain }: Knowledge,
  now: Date,
): Promise<void> {
  const { certificates, additionalRoots } = await verifyPluggedIn(material, trustDomain, now);
  const bundle = [...bundleRoots(store, now), ...known.roots];
  const changes: string[] = [];
  if (![...certificates.roots, ...additionalRoots].every((root) => isIn(bundle, root))) {
    const source = material.roots.find((each) =>
      readCertificates(each).some(({ der }) => !isIn(bundle, der)),
    );
    const { name = "root-cert.pem", path } = source ?? {};
    const file = path === undefined ? "ROOT.pem" : quoted(path);
    const first = path === undefined ? "write it to ROOT.pem, then " : "";
    changes.push(
      `${name} has a root that the trust bundle has not: ${first}\`rampart root add ${file}\` adds it`,
    );
  }
  if (!isSameChain(certificates.intermediates, known.intermediates)) {
    changes.push(
      "cert-chain.pem has other intermediates than the store: they come with the next CA certificate, for another key",
    );
  }
  if (changes.length === 0) return;
  throw new OperatorError(
    `the store has this CA certificate, and other files beside it have changed:\n${changes.join("\n")}`,
  );
}

const isSameChain = (one: readonly Bytes[], other: readonly Bytes[]): boolean =>
  one.length === other.length && one.every((der) => isIn(other, der));

/** The roots that the bundle has or will have, in DER, without those that a taint has removed. None is there twice. */
export function bundleRoots(
  { authorities, additionalRoots, taints }: OpenedStore,
  now: Date,
): readonly Bytes[] {
  const roots = Taint.apply([...authorities, ...additionalRoots], taints)
    .filter(({ schedule }) => schedule.retiresAt > now)
    .flatMap(({ roots }) => roots);
  return [...new Map(roots.map((root) => [Hex.format(root), root])).values()];
}

/**
 * Sorts the certificates of a chain file: the intermediate, other intermediates, and possible anchors, which are the
 * self-signed ones, `roots` and the roots of the bundle.
 */
export function sortChain(
  authority: ImportedCertificate,
  chain: readonly ImportedCertificate[],
  roots: readonly ImportedCertificate[],
  bundle: readonly Bytes[],
): ImportedCertificates {
  const others = chain.filter((each) => each !== authority);
  const known = bundle.map((der, i) => readCertificate(der, `root ${i + 1} of the trust bundle`));
  return {
    authority,
    others: others.filter((each) => !CaCertificate.isSelfIssued(each)),
    anchors: [...known, ...roots, ...others.filter(CaCertificate.isSelfIssued)],
  };
}

/** The first root of an intermediate that the bundle lacks; `undefined` if it has all of them. */
export function newRootOf(
  { certificates: { roots } }: VerifiedAuthority,
  bundle: readonly Bytes[],
): Bytes | undefined {
  return roots.find((root) => !isIn(bundle, root));
}

/** The additional roots that came with an intermediate, without those that the bundle has already. */
export function otherRootsOf(
  { additionalRoots }: VerifiedAuthority,
  bundle: readonly Bytes[],
): readonly Bytes[] {
  return additionalRoots.filter((root) => !isIn(bundle, root));
}

/** Whether a bundle has this root, in DER. */
export const isIn = (bundle: readonly Bytes[], root: Bytes): boolean =>
  bundle.some((each) => Bytes.equal(each, root));
