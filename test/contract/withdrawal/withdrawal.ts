import { describe } from "vitest";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import type { SignerStores } from "./asked-ca.ts";
import { describeDenials } from "./denials.ts";
import { describeRevocations } from "./revocations.ts";
import { describeWithheldTaint } from "./withheld-taint.ts";

/**
 * The promises about what an operator withdraws, on the stores of one platform.
 *
 * @param createStores Makes empty stores.
 */
export function describeWithdrawal(
  createStores: () => Promise<SignerStores>,
  cryptoProvider: CryptoProvider,
): void {
  describe("denials", () => describeDenials(createStores, cryptoProvider));
  describe("revocations", () => describeRevocations(createStores, cryptoProvider));
  describe("taints", () => describeWithheldTaint(createStores, cryptoProvider));
}
