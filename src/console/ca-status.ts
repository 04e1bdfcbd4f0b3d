import type { TrustedIssuer } from "../authn/trusted-issuer.ts";
import type { RootPush } from "../delivery/root-push.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import { createLogSearch } from "./status/log-search.ts";
import { createStatus, type Status, type StatusSources } from "./status/status.ts";

/** A CA whose status is shown, and what its platform adds. */
export interface ShownCa extends Pick<StatusSources, "program" | "issuance" | "inceptionDate"> {
  readonly trustDomain: TrustDomain;
  readonly certificateAuthority: CertificateAuthority;
  readonly issuers: readonly TrustedIssuer[];
  readonly push: Pick<RootPush, "clusters" | "outcomes">;
  /** Whether who asks has shown a credential: the entries of a log are for nobody else. */
  readonly hasCredentials: boolean;
}

/** The status of a CA, from the parts that issue. */
export function statusOf({
  certificateAuthority: { issuance, publishedLog },
  hasCredentials,
  ...shown
}: ShownCa): Status {
  const named = [...issuance.signers].map(
    ([name, { authorities }]) => [name, authorities] as const,
  );
  return createStatus({
    ...shown,
    signers: new Map([["", issuance.authorities], ...named]),
    troubles: () => issuance.issuanceLog?.troubles() ?? [],
    isLogged: publishedLog !== undefined,
    logSearch: publishedLog && hasCredentials ? createLogSearch(publishedLog) : undefined,
  });
}
