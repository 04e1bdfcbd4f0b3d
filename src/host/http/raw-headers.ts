/**
 * The headers of a request, with every value of a repeated one. Node's own object keeps only the first
 * `authorization`, and a proxy in front may have verified the second.
 */
export function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] ?? "");
  }
  return headers;
}
