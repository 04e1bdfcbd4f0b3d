/** The values with which a CA under test logs. */
export const logOrigin = "log.example.com/2026";
export const readerToken = "the-token-of-a-reader-of-the-log-0001";
