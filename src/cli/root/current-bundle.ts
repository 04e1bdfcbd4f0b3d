import { compose } from "../../compose/composition.ts";
import { CaError } from "../../foundation/errors.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import { nodeCryptoProvider } from "../../node/node-crypto-provider.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import type { Deployment } from "../session/deployment.ts";

/** What a CA publishes now, with the roots of its named signers; nothing where that cannot be read. */
export async function currentBundle(
  { configuration, store, signerStore }: Deployment,
  now: Date,
): Promise<NumberedBundle | undefined> {
  // Whoever asks has opened the store as well, and been told what is wrong with it.
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
