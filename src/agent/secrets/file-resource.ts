/** A resource that is read from files. */
export type FileResource =
  | { readonly kind: "certificate"; readonly chainFile: string; readonly keyFile: string }
  | { readonly kind: "roots"; readonly file: string }
  | { readonly kind: "system-roots" };

/** Parses Istio's names `file-cert:<chain>~<key>`, `file-root:<file>` and `file-root:system`. */
export function parseFileResource(name: string): FileResource | undefined {
  if (name === "file-root:system") return { kind: "system-roots" };
  const [, chainFile, keyFile] = /^file-cert:([^~]+)~([^~]+)$/.exec(name) ?? [];
  if (chainFile && keyFile) return { kind: "certificate", chainFile, keyFile };
  const [, file] = /^file-root:(.+)$/.exec(name) ?? [];
  return file ? { kind: "roots", file } : undefined;
}
