import { X509Certificate } from "node:crypto";
import { expect } from "vitest";

// All that a certificate of Node has is behind getters, so that without this any two of them count as equal.
expect.addEqualityTesters([
  (one: unknown, other: unknown) =>
    one instanceof X509Certificate && other instanceof X509Certificate
      ? one.raw.equals(other.raw)
      : undefined,
]);
