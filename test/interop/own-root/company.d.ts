/** A company's CA, kept by OpenSSL. */
export interface Company {
  readonly rootFile: string;
  /** Signs a request with these extensions, in the words of OpenSSL. PEM. */
  readonly sign: (csr: string, extensions: string) => Promise<string>;
}
/** Files by their names in a Secret. */
export type SecretFiles = Readonly<Record<string, string>>;
/** The root is as Istio's own samples have it: EC, self-signed, of version 1, without an extension. */
export declare function foundCompany(folder: string, name: string): Promise<Company>;
/** Mounts a Secret, or replaces it, as the kubelet does: each name leads through the link `..data`. */
export declare function mountSecret(folder: string, files: SecretFiles): Promise<void>;
