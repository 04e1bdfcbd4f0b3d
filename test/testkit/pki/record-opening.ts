import { AuthorityRecord } from "../../../src/custody/authority-record.ts";
import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import type { KekRing } from "../../../src/custody/kek.ts";
import type { OpenAuthority } from "../../../src/pki/authority/signing-authority.ts";
import type { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { alike } from "../crypto-providers.ts";

/** Opens the record of an authority, as every provider must. */
export const openRecord = (
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<OpenAuthority> =>
  alike(
    (cryptoProvider) => AuthorityRecord.open(stored, { trustDomain, keks }, cryptoProvider),
    ({ authority }) => authority.id,
  );
