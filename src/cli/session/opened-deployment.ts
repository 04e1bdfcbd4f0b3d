import type { Configuration } from "../../config/configuration.ts";
import type { AuthorityStore } from "../../custody/authority-store.ts";

/** A CA that a verb can read and change. */
export interface Deployment {
  readonly configuration: Configuration;
  readonly store: AuthorityStore;
  readonly signerStore: (signer: string) => AuthorityStore;
  /** The store's name in sentences, such as `deployed namespace`. */
  readonly place: string;
  /** The folder of a store of files. */
  readonly directory?: string;
  close(): Promise<void>;
}
