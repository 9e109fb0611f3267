"""Photos, folders, videos, cameras and streams in; answers drawn into pictures and videos; a live page in a browser."""
