import { createLogSearch } from "../status/log-search.ts";
import { createStatus, type Status, type StatusSources } from "../status/status.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";

type ShownParts = "program" | "configuration" | "issuance" | "issuers" | "push" | "crlPush";

/** A CA whose status is shown, and what its platform adds. */
export interface ShownCa extends Pick<StatusSources, ShownParts> {
  readonly certificateAuthority: CertificateAuthority;
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
