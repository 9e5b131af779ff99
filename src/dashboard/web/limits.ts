// What the server takes, as fields say it before anybody asks.
export const MIN_PASSWORD_LENGTH = 12
export const MAX_NAME_CHARACTERS = 255
