import type { JsonObject } from "@bufbuild/protobuf";
import type { AuthorityStore } from "../../../src/custody/authority-store.ts";
import type { KekRing } from "../../../src/custody/kek.ts";
import type { AuditLine } from "../../testkit/log/event-recorder.ts";
import type { HeldLeaf } from "../../testkit/pki/held-leaf.ts";
import type { Outcome } from "../rpc-calls.ts";

/** A CA of one configuration on a platform. */
export interface RunningService {
  /** A call of `CreateCertificate` by the holder of a certificate that the platform has let pass. */
  readonly call: (
    csr: string,
    shown: HeldLeaf | undefined,
    headers?: Readonly<Record<string, string>>,
    metadata?: JsonObject,
  ) => Promise<Outcome>;
  /** Removes and returns the audit events so far. */
  readonly takeAudits: () => readonly AuditLine[];
}

/** A store on a platform, and CAs that use it one after the other, as an operator restarts one. */
export interface ConfigurableService {
  readonly store: AuthorityStore;
  readonly keks: KekRing;
  /** Starts the CA anew with these keys of its configuration. */
  readonly start: (values: Readonly<Record<string, unknown>>) => Promise<RunningService>;
}
