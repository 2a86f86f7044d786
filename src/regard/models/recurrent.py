PRESETS: dict = {}


def build(config):
    raise NotImplementedError
