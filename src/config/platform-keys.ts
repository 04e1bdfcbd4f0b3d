import { keepRootCrls } from "../ca/revocation/root-crls.ts";
import {
  type KeyCustody,
  type OpenKeyCustody,
  openKeyCustody,
} from "../custody/key-service/key-custody.ts";

/** The key services of a platform, and what has a root in one of them sign its CRLs. */
export interface PlatformKeys extends KeyCustody {
  readonly keepRootCrls: typeof keepRootCrls;
}

export type OpenPlatformKeys = (...values: Parameters<OpenKeyCustody>) => PlatformKeys;

/** A Worker whose main module does not name this has nothing of key services in its bundle. */
export const openPlatformKeys: OpenPlatformKeys = (...values) => ({
  ...openKeyCustody(...values),
  keepRootCrls,
});
