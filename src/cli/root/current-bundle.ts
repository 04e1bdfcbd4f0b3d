import { compose } from "../../compose/composition.ts";
import { CaError } from "../../foundation/errors.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import { nodeCryptoProvider } from "../../node/node-crypto-provider.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import type { Deployment } from "../session/deployment.ts";

/** The trust bundle that a CA publishes now, named signers included; `undefined` if the store cannot be read. */
export async function currentBundle(
  { configuration, store, signerStore }: Deployment,
  now: Date,
): Promise<NumberedBundle | undefined> {
  // The caller opens the store as well, and logs its faults.
  const log = { audit: () => {}, operation: () => {} };
  const cryptoProvider = nodeCryptoProvider;
  const platform = { store, signerStore, cryptoProvider, log, clock: () => now };
  try {
    const { certificateAuthority } = await compose(configuration, platform);
    const { trustBundle, sequence } = await certificateAuthority.issuance.authorities.at(now);
    return trustBundle.roots.length > 0 ? { pem: trustBundle.pem, sequence } : undefined;
  } catch (error) {
    if (error instanceof CaError || error instanceof OperatorError) return undefined;
    throw error;
  }
}
