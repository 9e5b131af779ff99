// Limits of the server, for fields that show them.
export const MIN_PASSWORD_LENGTH = 12
export const MAX_NAME_CHARACTERS = 255
