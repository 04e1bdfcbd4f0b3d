import type { Target } from "./target.ts";

/** Every target by its name. A target loads when it is needed, because its corpus takes time to make. */
export const targets = {
  csr: async () => (await import("./csr/csr.ts")).csr,
  "csr-pem": async () => (await import("./csr/csr-pem.ts")).csrText,
  certificate: async () => (await import("./certificate.ts")).certificate,
  token: async () => (await import("./token.ts")).token,
  "jwt-svid": async () => (await import("./jwt-svid.ts")).jwtSvid,
  "subject-claims": async () => (await import("./subject-claims.ts")).subjectClaims,
  "token-request": async () => (await import("./token-request.ts")).tokenRequest,
  json: async () => (await import("./json.ts")).json,
  "root-file": async () => (await import("./root-file.ts")).rootFile,
  "spiffe-bundle": async () => (await import("./spiffe-bundle.ts")).spiffeBundle,
  record: async () => (await import("./record.ts")).record,
  protobuf: async () => (await import("./protobuf-message.ts")).protobufMessage,
  crl: async () => (await import("./crl.ts")).crl,
  tile: async () => (await import("./log.ts")).tile,
  checkpoint: async () => (await import("./log.ts")).checkpoint,
  "log-proof": async () => (await import("./log.ts")).logProof,
  "log-policy": async () => (await import("./log.ts")).logPolicy,
  console: async () => (await import("./console.ts")).consoleRequest,
  "pod-certificate": async () => (await import("./pod-certificate.ts")).podCertificate,
  "secret-space": async () => (await import("./object-space.ts")).secretSpace,
  "bucket-space": async () => (await import("./object-space.ts")).bucketSpace,
  wire: async () => (await import("./wire.ts")).wire,
} as const satisfies Readonly<Record<string, () => Promise<Target>>>;

export type TargetName = keyof typeof targets;

export const targetNames = Object.keys(targets) as readonly TargetName[];

export const isTargetName = (name: string): name is TargetName => name in targets;
