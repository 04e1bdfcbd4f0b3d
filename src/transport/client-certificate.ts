import { type ContextKey, createContextKey } from "@connectrpc/connect";
import type { Bytes } from "../pki/encoding/bytes.ts";

/**
 * Where a platform leaves the certificate of the caller for the RPC: DER of a leaf of which the platform
 * has verified the chain and the possession of the key.
 */
export const clientCertificateKey: ContextKey<Bytes | undefined> = createContextKey<
  Bytes | undefined
>(undefined);
