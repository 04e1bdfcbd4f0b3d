/** What the system calls a fault of its own, such as `ENOENT`; nothing for any other. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
