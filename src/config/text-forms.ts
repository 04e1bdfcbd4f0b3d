import * as z from "zod/mini";
import { parsedText } from "../foundation/text/parsed-text.ts";
import { parseTrustDomain, type TrustDomain } from "../pki/spiffe-id.ts";
import { isDnsName } from "../pki/x509/dns-name.ts";

/** The DNS name of a host. */
export const dnsName: z.ZodMiniString = z
  .string()
  .check(z.refine(isDnsName, "must be the name of a host, in lower case"));

/** The name of a cluster, as Istio's `clusterid` has it. */
export const clusterName: z.ZodMiniString = z
  .string()
  .check(z.regex(/^[A-Za-z0-9._/-]{1,253}$/, "must be a cluster's name"));

/** The path of a file. */
export const filePath: z.ZodMiniString = z.string().check(z.minLength(1, "must not be empty"));

/** A trust domain. */
export const trustDomainText: z.ZodMiniType<TrustDomain, string> = parsedText(
  parseTrustDomain,
  "must be a SPIFFE trust domain: lower-case letters, digits, dots, - and _",
);
