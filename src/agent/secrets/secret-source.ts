import type { TrustDomain } from "../../pki/spiffe-id.ts";

/** CRLs for a verifier. */
export interface Crls {
  readonly pem: string;
  /** Whether they revoke leaves alone. Otherwise a verifier needs a CRL of each CA on a path. */
  readonly isOfLeaves: boolean;
}

/** What Envoy gets by SDS: a certificate with its key, or roots with the CRLs beside them. */
export type Secret =
  | { readonly kind: "certificate"; readonly chainPem: string; readonly privateKeyPem: string }
  | {
      readonly kind: "roots";
      readonly pem: string;
      readonly revocation?: Crls;
    }
  | { readonly kind: "bundles"; readonly bundles: readonly DomainRoots[] };

/** The roots of a trust domain, in PEM. They verify only identities of that trust domain. */
export interface DomainRoots {
  readonly trustDomain: TrustDomain;
  readonly pem: string;
}

/** A source of secrets by their names, and of notices when they change. */
export interface SecretSource {
  /**
   * The current secret of this name. Waits for a pending attempt to obtain it.
   *
   * @throws Error whose message says why there is no secret.
   */
  load(name: string): Promise<Secret>;
  /** Calls back after each change of the secret. @returns A function that ends the watch. */
  watch(name: string, onChange: () => void): () => void;
}

/**
 * Loads secrets and returns them once `takeRoom` resolves. Each is loaded twice: first only to wait until it exists, then
 * for the answer. The wait may be long, and should not keep the room from other answers.
 */
export async function loadAll(
  source: SecretSource,
  names: readonly string[],
  takeRoom: () => Promise<void>,
): Promise<readonly Secret[]> {
  await Promise.all(names.map(async (name) => void (await source.load(name))));
  await takeRoom();
  return Promise.all(names.map((name) => source.load(name)));
}

/** Istio's and SPIRE's name of the resource with a proxy's own certificate. */
export const defaultResource = "default";

/** Istio's and SPIRE's name of the resource with the roots of the mesh. */
export const rootResource = "ROOTCA";

/** SPIRE's name of the resource with the roots of every trust domain. */
export const allResource = "ALL";
