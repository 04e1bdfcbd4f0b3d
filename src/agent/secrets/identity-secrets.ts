import type { RefreshingIdentity } from "../identity/refreshing-identity.ts";
import { privateKeyPem } from "../identity/subject-key.ts";
import { chainPem } from "../identity/x509-svid.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import type { Secret, SecretSource } from "./secret-source.ts";

/** Istio's names for a proxy's own certificate and for the roots. */
export const defaultResource = "default";
export const rootResource = "ROOTCA";

/** The certificates of identities, by the names that `find` knows. */
export function identitySecrets(
  find: (name: string) => RefreshingIdentity | undefined,
  isPkcs8: boolean,
): SecretSource {
  return {
    async load(name) {
      const identity = find(name);
      if (!identity) throw new Error("no such resource");
      const svid = await identity.awaitSvid();
      return {
        kind: "certificate",
        chainPem: chainPem(svid),
        privateKeyPem: privateKeyPem(svid.privateKey, isPkcs8),
      };
    },
    watch: (name, onChange) => find(name)?.changes.add(onChange) ?? (() => undefined),
  };
}

/** The roots of the agent's own trust domain. Before any is known, a load waits for the first answer. */
export function rootSecrets(trust: TrustRoots, awaitFirst: () => Promise<unknown>): SecretSource {
  const load = async (): Promise<Secret> => {
    if (trust.current.length === 0) await awaitFirst();
    if (trust.current.length === 0) throw new Error("no roots are known yet");
    return { kind: "roots", pem: trust.pem };
  };
  return { load, watch: (_name, onChange) => trust.changes.add(onChange) };
}
